//! The conformance suite on every kind of store.

use pilum_store::{Durability, testing::conformance};

use crate::{folder, now, open, open_unmapped};

#[test]
fn local_mapped() {
    let (_keep, path) = folder();
    now(conformance(&open(&path)));
}

#[test]
fn local_with_system_calls() {
    let (_keep, path) = folder();
    now(conformance(&open_unmapped(&path)));
}

#[test]
fn local_without_durability() {
    let (_keep, path) = folder();
    let store = open(&path).with_durability(Durability::None);
    now(conformance(&store));
    assert_eq!(store.counters().fsyncs, 0);
}

#[test]
fn local_with_a_root_that_does_not_exist_yet() {
    let (_keep, path) = folder();
    now(conformance(&open(&format!("{path}/not/yet"))));
}

#[test]
fn local_with_every_odd_sign_in_the_root() {
    let (_keep, path) = folder();
    let odd = format!("{path}/a b ä日 100% %41 #x ?y=1 ;&'\"");
    now(conformance(&open(&odd)));
    assert!(std::path::Path::new(&odd).join("plain/one").is_file());
    // The URI a store tells opens the same store.
    assert!(now(open(open(&odd).uri()).exists("plain/one")).unwrap());
    // So does the file URL that spells the same folder.
    let url =
        format!("file://{path}/a%20b%20%C3%A4%E6%97%A5%20100%25%20%2541%20%23x%20%3Fy=1%20;&'%22");
    assert!(now(open(&url).exists("plain/one")).unwrap());
}

#[test]
fn local_through_a_root_that_is_a_link() {
    let (_keep, path) = folder();
    std::fs::create_dir(format!("{path}/real")).unwrap();
    std::os::unix::fs::symlink(format!("{path}/real"), format!("{path}/link")).unwrap();
    now(conformance(&open(&format!("{path}/link/"))));
    assert!(std::path::Path::new(&path).join("real/plain/one").is_file());
}

#[test]
fn memory_at_the_top() {
    now(conformance(&open("memory://conformance-top")));
}

#[test]
fn memory_in_a_folder() {
    now(conformance(&open("memory://conformance-folder/some/table")));
}
