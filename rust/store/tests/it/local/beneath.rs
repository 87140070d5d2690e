//! Symbolic links, pipes and folders in a local folder.

use std::fs;
use std::os::unix::fs::symlink;
use std::sync::atomic::{AtomicBool, Ordering};

use pilum_store::Error;

use crate::{folder, now, open};

#[test]
fn links_that_leave_the_root_are_refused_by_every_verb() {
    let (_keep, base) = folder();
    let root = format!("{base}/table");
    fs::create_dir_all(format!("{root}/data")).unwrap();
    fs::create_dir(format!("{base}/outside")).unwrap();
    fs::create_dir(format!("{base}/table-2")).unwrap();
    fs::write(format!("{base}/outside/secret"), "s").unwrap();
    symlink("../../outside/secret", format!("{root}/data/file")).unwrap();
    symlink(format!("{base}/outside"), format!("{root}/folder")).unwrap();
    symlink("../table-2", format!("{root}/sibling")).unwrap();
    symlink("../outside/not-yet", format!("{root}/dangling")).unwrap();
    let store = open(&root);
    for path in [
        "data/file",
        "folder/secret",
        "folder/new",
        "sibling/new",
        "folder/a/b",
        "dangling",
    ] {
        let refused = [
            now(store.read(path, 9)).err(),
            now(store.stat(path)).err(),
            now(store.open_file(path, None)).err(),
            now(store.create(path, "x".into())).err(),
            now(store.put(path, "x".into())).err(),
            now(store.writer(path)).err(),
            now(store.delete(path)).err(),
        ];
        for error in refused {
            assert!(
                matches!(error, Some(Error::OutsideRoot { .. })),
                "{path}: {error:?}"
            );
        }
    }
    for prefix in ["folder", "sibling", "folder/a"] {
        assert!(
            matches!(now(store.list(prefix)), Err(Error::OutsideRoot { .. })),
            "{prefix}"
        );
    }
    assert!(
        now(store.list("data")).unwrap().is_empty(),
        "listings show no way out either"
    );
    assert!(now(store.list_recursive("")).unwrap().is_empty());
    assert_eq!(fs::read_dir(format!("{base}/outside")).unwrap().count(), 1);
    assert_eq!(fs::read_dir(format!("{base}/table-2")).unwrap().count(), 0);
}

#[test]
fn a_link_that_changes_while_it_is_opened_never_leads_out() {
    let (_keep, base) = folder();
    let root = format!("{base}/table");
    for (path, text) in [("table/inside", "inside"), ("outside", "secret")] {
        fs::create_dir_all(format!("{base}/{path}")).unwrap();
        fs::write(format!("{base}/{path}/file"), text).unwrap();
    }
    let store = open(&root);
    let ends = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for step in 0.. {
                if ends.load(Ordering::Relaxed) {
                    break;
                }
                let to = ["inside", "../outside"][step % 2];
                symlink(to, format!("{base}/next")).unwrap();
                fs::rename(format!("{base}/next"), format!("{root}/link")).unwrap();
            }
        });
        let (mut inside, mut refused) = (0, 0);
        for _ in 0..20_000 {
            match now(store.read("link/file", 9)) {
                Ok(text) => {
                    assert_eq!(text, "inside");
                    inside += 1;
                }
                Err(_) => refused += 1,
            }
        }
        ends.store(true, Ordering::Relaxed);
        assert!(
            inside > 0 && refused > 0,
            "{inside} read, {refused} refused"
        );
    });
}

#[test]
fn links_inside_the_root_are_followed() {
    let (_keep, root) = folder();
    let store = open(&root);
    now(store.create("data/real", "x".into())).unwrap();
    symlink("real", format!("{root}/data/link")).unwrap();
    symlink("data", format!("{root}/alias")).unwrap();
    assert_eq!(now(store.read("data/link", 9)).unwrap(), "x");
    assert_eq!(now(store.read("alias/link", 9)).unwrap(), "x");
    assert_eq!(now(store.list("data")).unwrap().len(), 2);
    // A loop of links is an error, not a hang.
    symlink("loop", format!("{root}/loop")).unwrap();
    assert!(now(store.read("loop", 9)).is_err());
    symlink(".", format!("{root}/data/here")).unwrap();
    assert_eq!(now(store.list_recursive("")).unwrap().len(), 2);
}

#[test]
fn pipes_and_folders_are_no_objects_and_do_not_block() {
    let (_keep, root) = folder();
    let made = std::process::Command::new("mkfifo")
        .arg(format!("{root}/pipe"))
        .status()
        .unwrap();
    assert!(made.success());
    fs::create_dir(format!("{root}/folder")).unwrap();
    let store = open(&root);
    for path in ["pipe", "folder"] {
        assert!(now(store.open_file(path, None)).unwrap_err().is_not_found());
        assert!(now(store.read(path, 9)).unwrap_err().is_not_found());
        assert!(now(store.stat(path)).unwrap_err().is_not_found());
    }
    assert!(now(store.list("")).unwrap().is_empty());
}
