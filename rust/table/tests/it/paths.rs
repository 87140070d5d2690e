//! Names that would lead out of a table: refused by name, and nothing outside is opened.
//!
//! Beside each table lies a file that would be read without complaint, if a name led to it.

use std::path::Path;

use bytes::Bytes;
use futures::TryStreamExt;
use pilum_format::ManifestFile;
use pilum_table::{Dataset, Result, ScanOptions, Store, VersionRef};
use pilum_testing::{Message, Slowest, peak_bytes};

use crate::forge::{TOP, bare, field, fragment, id_field, manifest_file};
use crate::support::{block_on, create, files, local, rows, runtime};

/// A folder `table` with a table of one file, and beside it what must not be opened.
struct Scene {
    folder: tempfile::TempDir,
    /// The table's one data file.
    data: Vec<u8>,
}

/// What refusing a name may take.
const MOST_MEMORY: usize = 128 << 20;
/// What lies outside, a sound data file.
const SECRET: &str = "secret.lance";

impl Scene {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("table");
        let store = local(&root);
        create(&store, &rows(0, 4), false);
        let listed = files(&store);
        let data = listed.iter().find(|path| path.starts_with("data/"));
        let data = block_on(store.read(data.unwrap(), 1 << 20)).unwrap();
        // Everything that a name may reach from data/, _transactions/ or _refs/tags/.
        for outside in ["", "data", "etc", "C:", "table-2", "..."] {
            std::fs::create_dir_all(folder.path().join(outside)).unwrap();
            std::fs::write(folder.path().join(outside).join(SECRET), &data).unwrap();
        }
        std::os::unix::fs::symlink(folder.path(), root.join("data/out")).unwrap();
        let secret = folder.path().join(SECRET);
        std::os::unix::fs::symlink(&secret, root.join("data/link.lance")).unwrap();
        std::os::unix::fs::symlink("../../secret.lance", root.join("data/up.lance")).unwrap();
        std::os::unix::fs::symlink("/nowhere/at/all", root.join("data/none.lance")).unwrap();
        Self {
            folder,
            data: data.to_vec(),
        }
    }

    fn root(&self) -> std::path::PathBuf {
        self.folder.path().join("table")
    }

    fn store(&self) -> Store {
        local(&self.root())
    }

    /// Replaces the only version.
    fn set(&self, manifest: &[u8]) {
        let versions = self.root().join("_versions");
        for entry in std::fs::read_dir(&versions).unwrap() {
            std::fs::remove_file(entry.unwrap().path()).unwrap();
        }
        std::fs::write(versions.join("1.manifest"), manifest).unwrap();
    }
}

fn read(store: &Store) -> Result<usize> {
    let table = block_on(Dataset::open_in(store, &VersionRef::Latest))?;
    let mut options = ScanOptions::default();
    options.threads = Some(1);
    let scan = table.snapshot().scan(options)?;
    let batches: Vec<_> = block_on(scan.batches(runtime().handle()).try_collect())?;
    Ok(batches.iter().map(arrow_array::RecordBatch::num_rows).sum())
}

/// A version whose one data file has a name.
fn version_of(path: &str) -> Message {
    let name = field("name", 1, TOP, "string");
    let columns = bare().bytes(1, id_field()).bytes(1, name);
    columns.bytes(2, fragment(0, 4, path)).number(11, 0)
}

/// Names that lead out, or that some system may take for such.
#[rustfmt::skip]
fn hostile(outside: &Path) -> Vec<String> {
    let outside = outside.to_str().unwrap();
    let mut names: Vec<String> = Vec::new();
    // Up, in every spelling.
    for up in [
        "..", "../", "..\\", "%2e%2e", "%2E%2E", ".%2e", "%2e.", "%252e%252e", "%25252e%25252e", "..%2f", "..%2F", "..%5c",
        "..%5C", "%2e%2e%2f", "%2e%2e%5c", "%252e%252e%252f", "..%252f", "..%00", "..\0", ". .", "...", "....", ".. ", "..  ",
        "..%20", ".%20.", " ..", "..;", "..%3b", "%c0%ae%c0%ae", "%e0%80%ae%e0%80%ae", "%f0%80%80%ae", "\u{2024}\u{2024}",
        "\u{2025}", "\u{ff0e}\u{ff0e}", "\u{fe52}\u{fe52}", "..\u{2044}", "..\u{2215}", "..\u{ff0f}", "..\u{29f8}", "..\u{ff3c}",
        "..%u2216", "..%uff0f", "0x2e0x2e", "&#46;&#46;", "..\u{200b}", "\u{202e}..", "..\n", "..\r", "..\t",
    ] {
        names.push(format!("{up}/{SECRET}"));
        names.push(format!("{up}/{up}/{SECRET}"));
        names.push(format!("a/{up}/{up}/{up}/{SECRET}"));
    }
    // From the top.
    names.extend([
        format!("{outside}/{SECRET}"), format!("/{outside}/{SECRET}"), format!("//{outside}/{SECRET}"),
        format!("%2f{outside}/{SECRET}"), format!("%252f{outside}/{SECRET}"), format!("./{outside}/{SECRET}"),
        format!("file://{outside}/{SECRET}"), format!("FILE:{outside}/{SECRET}"), format!("file:///{outside}/{SECRET}"),
        format!("~/{SECRET}"), format!("$HOME/{SECRET}"), format!("${{PWD}}/../{SECRET}"), format!("`pwd`/{SECRET}"),
    ]);
    names.extend([
        "/", "//", "/etc/passwd", "/proc/self/environ", "/dev/zero", "\\", "\\\\", "\\\\host\\share\\a", "//host/share/a",
        "\\\\?\\C:\\a", "\\\\.\\pipe\\a", "//?/C:/a", "C:/secret.lance", "c:secret.lance", "C:\\a", "z:", "C%3a/a", "C%3A\\a",
        "http://127.0.0.1/a", "https://169.254.169.254/latest/meta-data", "s3://bucket/a", "gs://bucket/a", "az://c/a",
        "memory://x/a", "ftp://h/a", "file:secret.lance", "data:,a", "jar:file:/a!/b", "http:%2f%2fhost/a",
        // Nothing, and pieces of nothing.
        "", ".", "..", "...", "./", "./a", "a/.", "a/..", "a/../..", "a//b", "a/", "//", "a/./../../x", "/a", " ", "  ", ". ", "\t",
        "%2e", "%2f", "%00", "%5c", "%", "%%", "%2", "%zz", "a%00.lance", "\0", "a\0", "\0a", "a\0.lance", "secret.lance%00.png",
        // Links, and what is no file.
        "out/secret.lance", "out/data/secret.lance", "out/./secret.lance", "out%2fsecret.lance", "link.lance", "up.lance",
        "none.lance", "out", "out/table/../secret.lance", "link.lance/a", "out/table/data/out/secret.lance",
        // Names that systems keep for themselves, or print in other ways.
        "CON", "nul", "aux.lance", "com1", "a:b", "a::$DATA", "a*", "a?b", "a|b", "<a>", "\"a\"", "-rf", "\u{1b}[2J",
        "\u{feff}a", "\u{202e}ecnal.a", "a\u{301}", "\u{0}\u{0}", "\u{7f}", "\u{85}", "\u{2028}",
    ].map(str::to_owned));
    for long in [256, 4096, 100_000] {
        names.push("a".repeat(long));
        names.push("a/".repeat(long) + SECRET);
        names.push("../".repeat(long) + SECRET);
        names.push("%25".repeat(long) + "2e");
    }
    names.sort();
    names.dedup();
    names
}

/// The error says what kind it is, and names the name: as it is, or with its odd characters written out.
fn expect_named(error: &pilum_table::Error, name: &str, place: &str) {
    let text = error.to_string();
    let kinds = [
        "corrupt",
        "not_found",
        "unsupported",
        "invalid_input",
        "store",
    ];
    assert!(kinds.contains(&error.kind()), "{place} {name:?}: {error:?}");
    let quoted = format!("{name:?}");
    let escaped = name.escape_debug().to_string();
    let is_named = [name, &quoted, &escaped]
        .iter()
        .any(|it| text.contains(*it));
    assert!(is_named, "{place} {name:?}: {text}");
    // A name alone is no reason.
    assert!(text.len() > name.len() + 10, "{place} {name:?}: {text}");
}

#[test]
fn no_name_of_a_data_file_leads_out() {
    let scene = Scene::new();
    std::fs::write(scene.root().join("data/sound.lance"), &scene.data).unwrap();
    scene.set(&manifest_file(&[], version_of("sound.lance")));
    assert_eq!(read(&scene.store()).unwrap(), 4, "the scene is sound");
    let names = hostile(scene.folder.path());
    assert!(names.len() >= 150, "{}", names.len());
    let mut leads_out = 0;
    let mut slowest = Slowest::default();
    for name in &names {
        scene.set(&manifest_file(&[], version_of(name)));
        // Would the system itself go there? Then refusing it is what keeps it in.
        let reached = scene.root().join("data").join(name);
        let is_secret = |path: &Path| path.is_file() && std::fs::read(path).unwrap() == scene.data;
        leads_out += usize::from(is_secret(&reached));
        let (refused, peak) = slowest.time(name, || peak_bytes(|| read(&scene.store())));
        expect_named(&refused.expect_err(name), name, "data file");
        assert!(peak <= MOST_MEMORY, "{peak} bytes: {name:?}");
        let memory = crate::support::memory();
        let bytes = Bytes::from(manifest_file(&[], version_of(name)));
        block_on(memory.put("_versions/1.manifest", bytes)).unwrap();
        assert!(read(&memory).is_err(), "{name:?} in memory");
    }
    assert!(leads_out >= 10, "only {leads_out} would have led out");
    eprintln!("{} names, {leads_out} of which lead out", names.len());
}

#[test]
fn no_name_of_a_transaction_file_leads_out() {
    let scene = Scene::new();
    let names = hostile(scene.folder.path());
    let mut refused = 0;
    for name in names.iter().filter(|name| !name.is_empty()) {
        // A transaction that would be read, if the name led to it.
        let manifest = manifest_file(&[], version_of("sound.lance").bytes(12, name));
        match ManifestFile::decode(&Bytes::from(manifest.clone()), "a manifest") {
            Err(error) => {
                refused += 1;
                assert_eq!(error.kind(), "corrupt", "{name:?}");
                expect_named(&error.into(), name, "transaction file");
            }
            Ok(_) => {
                // A plain name, however odd: there is no such file in the folder.
                scene.set(&manifest);
                let table = block_on(Dataset::open_in(&scene.store(), &VersionRef::Latest));
                let found = block_on(table.unwrap().snapshot().transaction());
                assert!(!matches!(found, Ok(Some(_))), "{name:?}");
            }
        }
    }
    assert!(refused >= 100, "{refused}");
}

#[test]
fn no_name_of_a_tag_or_branch_leads_out() {
    let scene = Scene::new();
    let table = block_on(Dataset::open_in(&scene.store(), &VersionRef::Latest)).unwrap();
    let tag = br#"{"branch":null,"version":1,"manifestSize":0}"#;
    std::fs::create_dir_all(scene.root().join("_refs/tags")).unwrap();
    for outside in ["", "_refs", "data"] {
        std::fs::write(scene.root().join(outside).join("secret.lance.json"), tag).unwrap();
    }
    std::fs::write(scene.folder.path().join("secret.lance.json"), tag).unwrap();
    for name in &hostile(scene.folder.path()) {
        let reference = VersionRef::Tag(name.clone());
        for error in [
            block_on(table.checkout(&reference))
                .map(drop)
                .expect_err(name),
            block_on(table.delete_tag(name)).expect_err(name),
        ] {
            expect_named(&error, name, "tag");
        }
        match block_on(table.create_tag(name, Some(1))) {
            Err(error) => expect_named(&error, name, "tag"),
            Ok(()) => {
                let path = scene.root().join("_refs/tags").join(format!("{name}.json"));
                assert!(path.is_file(), "{name:?} made a tag elsewhere");
                std::fs::remove_file(path).unwrap();
            }
        }
        // A tag of a peer on a branch: the name goes nowhere. Larger tags are not read.
        if name.len() > 10_000 {
            continue;
        }
        let branch = serde_json::json!({"branch": name, "version": 1, "manifestSize": 0});
        std::fs::write(
            scene.root().join("_refs/tags/branched.json"),
            branch.to_string(),
        )
        .unwrap();
        let reference = VersionRef::Tag("branched".to_owned());
        let error = block_on(table.checkout(&reference)).expect_err(name);
        assert_eq!(error.kind(), "unsupported", "{name:?}: {error}");
        expect_named(&error, name, "branch");
    }
    assert!(scene.folder.path().join("secret.lance.json").is_file());
}

#[test]
fn base_paths_and_links_are_refused() {
    let scene = Scene::new();
    std::fs::write(scene.root().join("data/sound.lance"), &scene.data).unwrap();
    for name in hostile(scene.folder.path()) {
        let base = Message::new().number(1, 1).number(3, 1).bytes(4, &name);
        scene.set(&manifest_file(
            &[],
            version_of("sound.lance").bytes(18, base),
        ));
        let error = read(&scene.store()).expect_err(&name);
        assert_eq!(error.kind(), "unsupported", "{name:?}: {error}");
        assert!(error.to_string().contains("base path"), "{error}");
    }
    // Deletion files have names of numbers only: a link is the one way out.
    let deletion = Message::new().number(2, 1).number(3, 5).number(4, 2);
    let file = fragment(0, 4, "sound.lance").bytes(3, deletion);
    let name = field("name", 1, TOP, "string");
    let message = bare().bytes(1, id_field()).bytes(1, name).bytes(2, file);
    scene.set(&manifest_file(&[], message.number(9, 1).number(11, 0)));
    std::fs::create_dir_all(scene.root().join("_deletions")).unwrap();
    let sound = pilum_format::encode_deletions(
        &[1, 2].into_iter().collect(),
        pilum_format::DeletionFileKind::Arrow,
    );
    let outside = scene.folder.path().join("0-1-5.arrow");
    std::fs::write(&outside, sound.unwrap()).unwrap();
    let link = scene.root().join("_deletions/0-1-5.arrow");
    std::os::unix::fs::symlink(&outside, &link).unwrap();
    let error = read(&scene.store()).unwrap_err();
    assert_eq!(error.kind(), "corrupt", "{error}");
    expect_named(&error, "_deletions/0-1-5.arrow", "deletion file");
    std::fs::remove_file(&link).unwrap();
    std::fs::copy(&outside, &link).unwrap();
    assert_eq!(read(&scene.store()).unwrap(), 2, "the scene is sound");
    // A folder of the table that is a link out.
    for folder in ["_versions", "data"] {
        let moved = scene.folder.path().join(format!("moved-{folder}"));
        std::fs::rename(scene.root().join(folder), &moved).unwrap();
        std::os::unix::fs::symlink(&moved, scene.root().join(folder)).unwrap();
        let error = read(&scene.store()).unwrap_err();
        assert_eq!(error.kind(), "corrupt", "{folder}: {error}");
        expect_named(&error, folder, "folder");
        std::fs::remove_file(scene.root().join(folder)).unwrap();
        std::fs::rename(&moved, scene.root().join(folder)).unwrap();
    }
    assert_eq!(read(&scene.store()).unwrap(), 2, "the scene is sound");
}
