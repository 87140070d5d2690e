//! Remote stores, against a small S3 server in this process that honours conditional writes, counts its requests, and loses
//! answers on demand.

mod server;

use std::sync::atomic::Ordering;

use pilum_store::{Error, StorageOptions, Store, testing::conformance};
use server::{Mood, Server};
use tracing::Level;

use crate::event::{events, expect};

/// A value no message may show.
const CANARY: &str = "c4n4rySecret";

fn run<F: Future>(future: F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build();
    runtime.unwrap().block_on(future)
}

fn store(server: &Server, uri: &str) -> Store {
    let options = StorageOptions::new()
        .with("endpoint", server.url())
        .with("allow_http", "true")
        .with("region", "test")
        .with("access_key_id", CANARY)
        .with("secret_access_key", CANARY)
        .with("max_retries", "0");
    Store::open(uri, &options).unwrap()
}

#[test]
fn s3_conforms() {
    let server = Server::start();
    run(conformance(&store(&server, "s3://bucket")));
}

#[test]
fn s3_in_a_folder_conforms() {
    let server = Server::start();
    let store = store(&server, "s3://bucket/some%20folder/table");
    assert!(!store.is_local());
    assert_eq!(store.uri(), "s3://bucket/some%20folder/table");
    run(conformance(&store));
    assert!(
        server
            .keys()
            .iter()
            .all(|key| key.starts_with("bucket/some folder/table/"))
    );
}

#[test]
fn opening_an_object_of_unknown_size_costs_one_request_and_reads_its_tail() {
    let server = Server::start();
    let store = store(&server, "s3://bucket/t");
    run(async {
        let bytes: Vec<u8> = (0..300_000u32)
            .map(|i| u8::try_from(i % 251).unwrap())
            .collect();
        store.put("f", bytes.clone().into()).await.unwrap();
        let before = server.requests.load(Ordering::SeqCst);
        let file = store.open_file("f", None).await.unwrap();
        assert_eq!(file.size(), 300_000);
        assert_eq!(file.read_tail(1000).await.unwrap(), bytes[299_000..]);
        assert_eq!(
            file.read_ranges(&[250_000..250_010]).await.unwrap()[0],
            bytes[250_000..250_010]
        );
        assert_eq!(server.requests.load(Ordering::SeqCst) - before, 1);
        // Near ranges are one more request, however many.
        let ranges: Vec<_> = (0..100u64).map(|i| i * 1000..i * 1000 + 10).collect();
        file.read_ranges(&ranges).await.unwrap();
        assert_eq!(server.requests.load(Ordering::SeqCst) - before, 2);
        // A known size needs none at all.
        store.open_file("f", Some(300_000)).await.unwrap();
        assert_eq!(server.requests.load(Ordering::SeqCst) - before, 2);
        // A wrong one is an error when read.
        let wrong = store.open_file("f", Some(300_001)).await.unwrap();
        assert!(wrong.read_tail(10).await.is_err());
    });
}

#[test]
fn a_lost_answer_to_a_write_is_unclear_whether_it_happened_or_not() {
    for (mood, happened) in [
        (Mood::LoseAnswerAfterPut, true),
        (Mood::LoseAnswerBeforePut, false),
    ] {
        let server = Server::start();
        let store = store(&server, "s3://bucket/t");
        run(async {
            // The store has shown that it honours conditions.
            store.create("first", "x".into()).await.unwrap();
            server.set(mood);
            let error = store.create("k", "x".into()).await.unwrap_err();
            assert!(matches!(error, Error::Unclear { .. }), "{error:?}");
            let error_of_put = store.put("p", "x".into()).await.unwrap_err();
            assert!(
                matches!(error_of_put, Error::Unclear { .. }),
                "{error_of_put:?}"
            );
            server.set(Mood::Well);
            assert_eq!(store.exists("k").await.unwrap(), happened);
        });
    }
}

#[test]
fn a_conflict_is_a_lost_race_by_either_number() {
    for mood in [Mood::Conflict409, Mood::Precondition412] {
        let server = Server::start();
        let store = store(&server, "s3://bucket/t");
        server.set(mood);
        let error = run(store.create("k", "x".into())).unwrap_err();
        assert!(matches!(error, Error::AlreadyExists { .. }), "{error:?}");
    }
}

#[test]
fn refusals_are_certain_and_never_show_the_credentials() {
    let server = Server::start();
    let store = store(&server, "s3://bucket/t");
    server.set(Mood::Forbidden);
    run(async {
        for error in [
            store.create("k", "x".into()).await.unwrap_err(),
            store.read("k", 9).await.unwrap_err(),
            store.list("").await.unwrap_err(),
            store.open_file("k", None).await.unwrap_err(),
        ] {
            assert!(matches!(error, Error::Io { .. }), "{error:?}");
            // The server's answer repeats what it was sent.
            let shown = format!("{error} {error:?}");
            assert!(!shown.contains(CANARY), "{shown}");
        }
    });
    assert!(!format!("{store:?}").contains(CANARY));
}

#[test]
fn racing_creators_have_one_winner() {
    let server = Server::start();
    let store = store(&server, "s3://bucket/t");
    let outcomes = run(async {
        let creates = (0..16).map(|racer| store.create("k", format!("{racer}").into()));
        futures::future::join_all(creates).await
    });
    assert_eq!(outcomes.iter().filter(|outcome| outcome.is_ok()).count(), 1);
    let lost = |o: &&Result<(), Error>| matches!(o, Err(Error::AlreadyExists { .. }));
    assert_eq!(outcomes.iter().filter(lost).count(), 15);
}

#[test]
fn large_streams_go_in_parts_and_abandoned_ones_are_aborted() {
    let server = Server::start();
    let store = store(&server, "s3://bucket/t");
    run(async {
        let chunk = vec![7u8; 5 << 20];
        let mut writer = store.writer("big").await.unwrap();
        for _ in 0..9 {
            writer.write(chunk.clone().into()).await.unwrap();
        }
        assert_eq!(writer.finish().await.unwrap(), 45 << 20);
        assert_eq!(store.stat("big").await.unwrap().size, 45 << 20);

        let mut writer = store.writer("abandoned").await.unwrap();
        for _ in 0..9 {
            writer.write(chunk.clone().into()).await.unwrap();
        }
        assert_eq!(server.open_uploads(), 1);
        drop(writer);
        for _ in 0..200 {
            if server.open_uploads() == 0 {
                break;
            }
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
        assert_eq!(server.open_uploads(), 0);
        assert!(!store.exists("abandoned").await.unwrap());
    });
}

#[test]
fn web_servers_are_read_only() {
    let server = Server::start();
    let s3 = store(&server, "s3://bucket/t");
    let options = StorageOptions::new()
        .with("allow_http", "true")
        .with("max_retries", "0");
    let web = Store::open(&format!("{}/bucket/t", server.url()), &options).unwrap();
    run(async {
        s3.put("f", "0123456789".into()).await.unwrap();
        assert_eq!(web.read("f", 99).await.unwrap(), "0123456789");
        let file = web.open_file("f", None).await.unwrap();
        assert_eq!(
            file.read_ranges(&[2..4, 8..10]).await.unwrap(),
            ["23", "89"]
        );
        for error in [
            web.create("k", "x".into()).await.unwrap_err(),
            web.put("k", "x".into()).await.unwrap_err(),
            web.writer("k").await.unwrap_err(),
            web.delete("f").await.unwrap_err(),
        ] {
            assert!(matches!(error, Error::Unsupported { .. }), "{error:?}");
        }
    });
}

#[test]
fn each_attempt_of_a_request_is_told_without_credentials() {
    let server = Server::start();
    let store = store(&server, "s3://bucket/t");
    let seen = events(|| {
        run(async {
            store.put("f", "0123456789".into()).await.unwrap();
            let file = store.open_file("f", Some(10)).await.unwrap();
            file.read_ranges(&[2..4]).await.unwrap();
            server.set(Mood::Forbidden);
            store.stat("f").await.unwrap_err();
        });
    });
    let http = "pilum::store::http ";
    expect(
        &seen,
        Level::TRACE,
        &[http, "method=PUT", "/bucket/t/f", "status=200"],
    );
    expect(
        &seen,
        Level::TRACE,
        &[http, "method=GET", "/bucket/t/f", "status=206"],
    );
    expect(
        &seen,
        Level::TRACE,
        &[http, "method=HEAD", "/bucket/t/f", "status=403"],
    );
    let fetch = ["pilum::store::request ", "\"fetch\"", "offset=2 bytes=2"];
    expect(&seen, Level::TRACE, &fetch);
    assert!(!seen.iter().any(|line| line.contains(CANARY)), "{seen:#?}");
}
