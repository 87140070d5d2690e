//! Paths that symbolic links lead out of the root are not opened.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::symlink;

use super::*;

const READ: OFlags = OFlags::RDONLY;

/// A root with a file, and a secret beside it.
fn root() -> (tempfile::TempDir, PathBuf, OpenFolder) {
    let base = tempfile::tempdir().unwrap();
    let root = base.path().join("table");
    fs::create_dir_all(root.join("data/deep")).unwrap();
    fs::write(root.join("data/deep/file"), "inside").unwrap();
    fs::create_dir(base.path().join("outside")).unwrap();
    fs::write(base.path().join("outside/file"), "secret").unwrap();
    let opened = OpenFolder::at(&root).unwrap();
    (base, root, opened)
}

fn text(opened: Result<OwnedFd, Refused>) -> String {
    let mut text = String::new();
    let mut file = File::from(opened.unwrap());
    file.read_to_string(&mut text).unwrap();
    text
}

fn is_outside(opened: &Result<OwnedFd, Refused>) -> bool {
    matches!(opened, Err(Refused::Outside(_)))
}

#[test]
fn links_inside_are_followed_with_and_without_the_call_of_the_kernel() {
    let (_keep, path, root) = root();
    symlink("deep/file", path.join("data/link")).unwrap();
    symlink("data", path.join("alias")).unwrap();
    symlink("../data/deep", path.join("alias/up")).unwrap();
    // The kernel refuses this one, because it is absolute.
    symlink(path.join("data/deep"), path.join("absolute")).unwrap();
    for relative in [
        "data/deep/file",
        "data/link",
        "alias/link",
        "alias/up/file",
        "absolute/file",
    ] {
        assert_eq!(text(root.open(relative, READ)), "inside", "{relative}");
        assert_eq!(
            text(root.open_resolved(relative, READ)),
            "inside",
            "{relative}"
        );
    }
    let folder = root.folder("absolute").unwrap();
    assert_eq!(folder.path(), path.join("absolute"));
    assert_eq!(text(folder.open("file", READ)), "inside");
}

#[test]
fn links_that_leave_are_refused_with_and_without_the_call_of_the_kernel() {
    let (keep, path, root) = root();
    symlink("../outside", path.join("relative")).unwrap();
    symlink(keep.path().join("outside"), path.join("absolute")).unwrap();
    symlink("../../outside/file", path.join("data/file")).unwrap();
    symlink("../outside/absent", path.join("nowhere")).unwrap();
    for relative in [
        "relative/file",
        "relative/absent",
        "absolute/file",
        "absolute/absent/deeper",
        "data/file",
        "nowhere",
    ] {
        assert!(is_outside(&root.open(relative, READ)), "{relative}");
        assert!(
            is_outside(&root.open_resolved(relative, READ)),
            "{relative}"
        );
    }
    for relative in ["absent", "data/absent", "absent/deeper"] {
        assert!(root.open(relative, READ).unwrap_err().is_not_found());
        assert!(
            root.open_resolved(relative, READ)
                .unwrap_err()
                .is_not_found()
        );
    }
}

#[test]
fn a_link_that_appears_after_the_path_was_resolved_is_not_followed() {
    let (keep, path, root) = root();
    // Resolved while all of it were plain folders and files ...
    let resolved = Path::new("data/deep/file");
    assert_eq!(text(root.open_without_links(resolved, READ)), "inside");
    // ... and opened when one is a link, to the outside or not.
    fs::rename(path.join("data/deep"), path.join("data/moved")).unwrap();
    symlink(keep.path().join("outside"), path.join("data/deep")).unwrap();
    assert!(is_outside(&root.open_without_links(resolved, READ)));
    symlink("moved/file", path.join("data/file")).unwrap();
    assert!(is_outside(
        &root.open_without_links(Path::new("data/file"), READ)
    ));
}
