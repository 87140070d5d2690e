//! Steps of a local write that fail: the error tells whether something was written, and nothing is left behind.

use std::fs;
use std::io;
use std::process::Command;

use pilum_store::failpoint::arm;
use pilum_store::{Error, Store};

use crate::{folder, now, open};

/// Names in the whole folder.
fn left_behind(store: &Store) -> Vec<String> {
    now(store.list_recursive(""))
        .unwrap()
        .into_iter()
        .map(|one| one.path)
        .collect()
}

#[test]
fn a_failure_before_publication_is_certain_and_leaves_nothing() {
    for place in [
        "folder.before_create",
        "folder.before_fsync",
        "stage.before_create",
        "stage.before_write",
        "stage.before_fsync",
        "stage.after_fsync",
        "create.before_link",
    ] {
        let (_keep, root) = folder();
        let store = open(&root);
        let armed = arm(&format!("{place}=error"), &root);
        let error = now(store.create("_versions/1", "x".into())).unwrap_err();
        drop(armed);
        let Error::Io { path, source, .. } = &error else {
            panic!("{place}: {error}")
        };
        assert_eq!(*path, format!("{root}/_versions/1"));
        assert_eq!(source.kind(), io::ErrorKind::StorageFull);
        assert!(left_behind(&store).is_empty(), "{place}");
        now(store.create("_versions/1", "y".into())).unwrap();
        assert_eq!(now(store.read("_versions/1", 9)).unwrap(), "y");
    }
}

#[test]
fn a_failure_after_publication_is_unclear_and_leaves_the_object_alone() {
    for place in [
        "create.after_link",
        "create.before_folder_fsync",
        "create.after_folder_fsync",
    ] {
        let (_keep, root) = folder();
        let store = open(&root);
        let armed = arm(&format!("{place}=error"), &root);
        let error = now(store.create("_versions/1", "x".into())).unwrap_err();
        drop(armed);
        assert!(matches!(error, Error::Unclear { .. }), "{place}: {error}");
        assert_eq!(left_behind(&store), ["_versions/1"], "{place}");
        assert_eq!(now(store.read("_versions/1", 9)).unwrap(), "x");
    }
}

#[test]
fn a_failed_replacement_keeps_the_old_bytes_until_the_rename() {
    for (place, kept, is_unclear) in [
        ("stage.before_write", "old", false),
        ("stage.before_fsync", "old", false),
        ("put.before_rename", "old", false),
        ("put.after_rename", "new", true),
        ("put.after_folder_fsync", "new", true),
    ] {
        let (_keep, root) = folder();
        let store = open(&root);
        now(store.put("tag", "old".into())).unwrap();
        let armed = arm(&format!("{place}=error"), &root);
        let error = now(store.put("tag", "new".into())).unwrap_err();
        drop(armed);
        assert_eq!(
            matches!(error, Error::Unclear { .. }),
            is_unclear,
            "{place}: {error}"
        );
        assert_eq!(now(store.read("tag", 9)).unwrap(), kept, "{place}");
        assert_eq!(left_behind(&store), ["tag"], "{place}");
    }
}

#[test]
fn a_stream_that_fails_anywhere_leaves_nothing() {
    for place in [
        "writer.before_create",
        "writer.before_write",
        "writer.before_write=error@3",
        "writer.after_write",
        "writer.before_fsync",
        "writer.before_folder_fsync",
        "writer.after_folder_fsync",
    ] {
        let (_keep, root) = folder();
        let store = open(&root);
        let spec = if place.contains('=') {
            place.to_owned()
        } else {
            format!("{place}=error")
        };
        let armed = arm(&spec, &root);
        let outcome = (|| {
            let mut writer = now(store.writer("data/f"))?;
            for _ in 0..4 {
                now(writer.write(vec![1; 2 << 20].into()))?;
            }
            now(writer.finish())
        })();
        drop(armed);
        assert!(
            matches!(outcome, Err(Error::Io { .. })),
            "{place}: {outcome:?}"
        );
        assert!(left_behind(&store).is_empty(), "{place}");
    }
}

#[test]
fn a_stream_that_failed_once_cannot_be_finished() {
    let (_keep, root) = folder();
    let store = open(&root);
    let mut writer = now(store.writer("data/f")).unwrap();
    let armed = arm("writer.after_write=error", &root);
    assert!(now(writer.write(vec![1; 2 << 20].into())).is_err());
    drop(armed);
    assert!(
        now(writer.write("more".into())).is_err(),
        "there may be a gap"
    );
    assert!(now(writer.finish()).is_err());
    assert!(left_behind(&store).is_empty());
}

#[test]
fn places_where_nothing_can_be_written_say_so_with_their_path() {
    // No user can create files there, not even root.
    let store = open("/proc/self/task");
    for error in [
        now(store.create("x", "x".into())).unwrap_err(),
        now(store.create("a/b", "x".into())).unwrap_err(),
        now(store.put("x", "x".into())).unwrap_err(),
        now(store.writer("x")).unwrap_err(),
    ] {
        let Error::Io { path, .. } = &error else {
            panic!("{error:?}")
        };
        assert!(path.starts_with("/proc/self/task/"), "{path}");
    }
    // A file where a folder should be.
    let (_keep, root) = folder();
    fs::write(format!("{root}/data"), "a file").unwrap();
    let error = now(open(&root).create("data/x", "x".into())).unwrap_err();
    assert!(matches!(error, Error::Io { .. }), "{error:?}");
    let error = now(open(&format!("{root}/data")).create("x", "x".into())).unwrap_err();
    assert!(matches!(error, Error::Io { .. }), "{error:?}");
    assert_eq!(fs::read_dir(&root).unwrap().count(), 1);
}

#[test]
fn a_real_refusal_of_the_kernel_to_write_leaves_no_file() {
    let (_keep, root) = folder();
    // This very test binary again, allowed to write files of 8 blocks only.
    let status = Command::new("sh")
        .args([
            "-c",
            "trap '' XFSZ; ulimit -f 8; exec \"$0\" --exact local::failures::limited_child",
        ])
        .arg(std::env::current_exe().unwrap())
        .env("PILUM_TEST_LIMITED_ROOT", &root)
        .output()
        .unwrap();
    assert!(
        status.status.success(),
        "{}",
        String::from_utf8_lossy(&status.stdout)
    );
    let names = left_behind(&open(&root));
    assert_eq!(
        names,
        ["small"],
        "the child did its work and left nothing else"
    );
}

/// The other half of the test above; alone it has nothing to do.
#[test]
fn limited_child() {
    let Ok(root) = std::env::var("PILUM_TEST_LIMITED_ROOT") else {
        return;
    };
    let store = open(&root);
    let large = vec![1; 2 << 20];
    for error in [
        now(store.create("large", large.clone().into())).unwrap_err(),
        now(store.put("large", large.clone().into())).unwrap_err(),
        {
            let mut writer = now(store.writer("large")).unwrap();
            now(writer.write(large.clone().into())).unwrap_err()
        },
        {
            let mut writer = now(store.writer("large")).unwrap();
            now(writer.write(vec![1; 100_000].into())).unwrap();
            now(writer.finish()).unwrap_err()
        },
    ] {
        assert!(matches!(error, Error::Io { .. }), "{error:?}");
    }
    now(store.create("small", "x".into())).unwrap();
}

#[test]
fn a_process_that_dies_at_any_step_leaves_the_old_state_or_the_new() {
    for (place, is_there) in [
        ("folder.before_create", false),
        ("stage.before_write", false),
        ("stage.after_fsync", false),
        ("create.before_link", false),
        ("create.after_link", true),
        ("create.before_folder_fsync", true),
        ("create.after_folder_fsync", true),
    ] {
        let (_keep, root) = folder();
        let status = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "local::failures::dying_child"])
            .env("PILUM_FAILPOINT", format!("{place}=abort"))
            .env("PILUM_TEST_DYING_ROOT", &root)
            .output()
            .unwrap();
        assert!(!status.status.success(), "{place} was not reached");
        let store = open(&root);
        assert_eq!(
            now(store.exists("_versions/1")).unwrap(),
            is_there,
            "{place}"
        );
        // The next writer is not disturbed by what lies around.
        let next = now(store.create("_versions/1", "next".into()));
        assert_eq!(
            matches!(next, Err(Error::AlreadyExists { .. })),
            is_there,
            "{place}"
        );
        let expected = if is_there { "dying" } else { "next" };
        assert_eq!(now(store.read("_versions/1", 9)).unwrap(), expected);
        assert_eq!(now(store.list("_versions")).unwrap().len(), 1);
    }
}

/// The other half of the test above; alone it has nothing to do.
#[test]
fn dying_child() {
    let Ok(root) = std::env::var("PILUM_TEST_DYING_ROOT") else {
        return;
    };
    now(open(&root).create("_versions/1", "dying".into())).unwrap();
}
