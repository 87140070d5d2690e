//! URLs and paths as locations of stores.

use super::*;

fn local_root(uri: &str) -> String {
    match parse(uri).unwrap() {
        Location::Local(root) => root.to_str().unwrap().to_owned(),
        other => panic!("{uri} gave {other:?}"),
    }
}

#[test]
fn plain_paths_are_literal() {
    for path in [
        "/t/a b", "/t/ä日", "/t/100%", "/t/%41", "/t/a#b", "/t/a?b=c", "/t/a:b", "/C:/x",
    ] {
        assert_eq!(local_root(path), path);
    }
    let here = std::env::current_dir().unwrap();
    assert_eq!(
        local_root("some/table"),
        here.join("some/table").to_str().unwrap()
    );
    assert_eq!(
        local_root("C:table"),
        here.join("C:table").to_str().unwrap()
    );
}

#[test]
fn file_urls_are_percent_decoded_once() {
    assert_eq!(local_root("file:///t/a%20b"), "/t/a b");
    assert_eq!(local_root("file://localhost/t/%C3%A4%23%3F%25"), "/t/ä#?%");
    assert_eq!(local_root("FILE:///t/%2541"), "/t/%41");
    for bad in [
        "file://host/t",
        "file://t",
        "file:///t?x=1",
        "file:///t#x",
        "file:///t/%00",
        "file:///%ff",
    ] {
        assert!(
            matches!(parse(bad), Err(Error::InvalidInput { .. })),
            "{bad}"
        );
    }
}

#[test]
fn memory_urls_have_a_name_and_a_folder() {
    for (uri, name, folder) in [
        ("memory://", "", ""),
        ("memory://a", "a", ""),
        ("memory://a/", "a", ""),
        ("memory:///b/c", "", "b/c"),
        ("memory://a/b/c/", "a", "b/c"),
    ] {
        let expected = Location::Memory {
            authority: name.to_owned(),
            prefix: folder.to_owned(),
        };
        assert_eq!(parse(uri).unwrap(), expected, "{uri}");
    }
    assert!(matches!(
        parse("memory://a/../b"),
        Err(Error::OutsideRoot { .. })
    ));
}

#[test]
fn remote_urls_keep_scheme_bucket_and_folder() {
    for (uri, scheme, url) in [
        ("s3://b/t/", CloudScheme::S3, "s3://b/t"),
        ("S3A://b", CloudScheme::S3, "s3://b"),
        ("gcs://b/t", CloudScheme::Gcs, "gs://b/t"),
        ("az://c/t", CloudScheme::Azure, "az://c/t"),
        (
            "abfss://c@acc.dfs.core.windows.net/t",
            CloudScheme::Azure,
            "abfss://c@acc.dfs.core.windows.net/t",
        ),
        (
            "https://h:8080/a/b",
            CloudScheme::Http,
            "https://h:8080/a/b",
        ),
        ("http://[::1]:80/a", CloudScheme::Http, "http://[::1]:80/a"),
        ("http://[::1]/a", CloudScheme::Http, "http://[::1]/a"),
    ] {
        let expected = Location::Cloud {
            scheme,
            url: url.to_owned(),
        };
        assert_eq!(parse(uri).unwrap(), expected, "{uri}");
    }
    assert!(matches!(
        parse("s3://b/../c"),
        Err(Error::OutsideRoot { .. })
    ));
}

#[test]
fn uris_without_meaning_are_refused() {
    for bad in ["", "hdfs://h/t", "s3://", "s3:///t", "a\0b"] {
        assert!(
            matches!(parse(bad), Err(Error::InvalidInput { .. })),
            "{bad:?}"
        );
    }
}

#[test]
fn secrets_in_urls_are_refused_and_never_repeated() {
    for uri in [
        "https://user:c4n4ry@host/t",
        "https://c4n4ry@host/t",
        "https://host/t?sig=c4n4ry",
        "https://host/t#c4n4ry",
        "s3://c4n4ry:c4n4ry@bucket/t",
        "s3://bucket/t?token=c4n4ry",
        "az://acc:c4n4ry@host/t",
        "ftp://user:c4n4ry@host/t?x=c4n4ry",
        "s3+ddb://c4n4ry@bucket/t?ddbTableName=c4n4ry",
        "s3+ddb://bucket/t?ddbTableName=c4n4ry&x=c4n4ry",
        "s3+ddb://bucket/t?token=c4n4ry",
        "file://c4n4ry@host?c4n4ry",
        // A password with a slash in it.
        "http://user:c4n4ry/c4n4ry@host/t",
        "https://user:4c/c4n4ry:x@host/t",
        "s3://user:c4n4ry/c4n4ry@bucket/t",
        "ftp://user:c4n4ry/c4n4ry@host/t",
    ] {
        let error = parse(uri).unwrap_err();
        assert!(
            !format!("{error} {error:?}").contains("c4n4ry"),
            "{uri}: {error}"
        );
    }
}

#[test]
fn an_external_register_is_named_by_exactly_one_parameter() {
    assert_eq!(
        parse("s3+ddb://b/a/t/?ddbTableName=my-Table_1.x").unwrap(),
        Location::Registered {
            url: "s3://b/a/t".to_owned(),
            table: "my-Table_1.x".to_owned()
        }
    );
    for bad in [
        "s3+ddb://b/t",
        "s3+ddb://b/t?",
        "s3+ddb://b/t?ddbTableName=",
        "s3+ddb://b/t?ddbTableName=a/b",
        "s3+ddb://b/t?ddbTableName=a&x=1",
        "s3+ddb://b/t?other=a",
        "s3+ddb://b/t?ddbTableName=a?ddbTableName=b",
        "s3+ddb:///t?ddbTableName=a",
    ] {
        assert!(
            matches!(parse(bad), Err(Error::InvalidInput { .. })),
            "{bad:?}"
        );
    }
}
