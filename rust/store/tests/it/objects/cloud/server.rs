//! As much of S3 as the store uses, over plain sockets: objects in a map, one thread per connection.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use percent_encoding::percent_decode_str;

/// How the server treats writes, or all requests.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Mood {
    Well,
    LoseAnswerBeforePut,
    LoseAnswerAfterPut,
    Conflict409,
    Precondition412,
    Forbidden,
}

type Parts = BTreeMap<u64, Vec<u8>>;

#[derive(Debug)]
struct State {
    mood: Mood,
    objects: BTreeMap<String, (Vec<u8>, u64)>,
    uploads: BTreeMap<String, Parts>,
    next_id: u64,
}

#[derive(Debug)]
pub(crate) struct Server {
    port: u16,
    state: Arc<Mutex<State>>,
    pub(crate) requests: Arc<AtomicU64>,
}

struct Request {
    method: String,
    key: String,
    query: BTreeMap<String, String>,
    headers: BTreeMap<String, String>,
    body: Vec<u8>,
}

struct Answer {
    status: &'static str,
    headers: Vec<(&'static str, String)>,
    body: Vec<u8>,
}

fn answer(status: &'static str, body: impl Into<Vec<u8>>) -> Answer {
    Answer {
        status,
        headers: Vec::new(),
        body: body.into(),
    }
}

impl Server {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let objects = BTreeMap::new();
        let state = State {
            mood: Mood::Well,
            objects,
            uploads: BTreeMap::new(),
            next_id: 0,
        };
        let state = Arc::new(Mutex::new(state));
        let requests = Arc::new(AtomicU64::new(0));
        let server = Self {
            port,
            state: Arc::clone(&state),
            requests: Arc::clone(&requests),
        };
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (state, requests) = (Arc::clone(&state), Arc::clone(&requests));
                std::thread::spawn(move || serve(&stream, &state, &requests));
            }
        });
        server
    }

    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    pub(crate) fn set(&self, mood: Mood) {
        self.state.lock().unwrap().mood = mood;
    }

    pub(crate) fn keys(&self) -> Vec<String> {
        self.state.lock().unwrap().objects.keys().cloned().collect()
    }

    pub(crate) fn open_uploads(&self) -> usize {
        self.state.lock().unwrap().uploads.len()
    }
}

fn serve(stream: &TcpStream, state: &Mutex<State>, requests: &AtomicU64) {
    let mut reader = BufReader::new(stream);
    let mut writer = stream;
    while let Some(request) = read_request(&mut reader) {
        requests.fetch_add(1, Ordering::SeqCst);
        let Some(answer) = respond(&request, &mut state.lock().unwrap()) else {
            return;
        };
        let is_head = request.method == "HEAD";
        let body: &[u8] = if is_head { &[] } else { &answer.body };
        let mut head = format!("HTTP/1.1 {}\r\n", answer.status);
        let length = answer.body.len();
        head += &format!("Content-Length: {length}\r\n");
        for (name, value) in &answer.headers {
            head += &format!("{name}: {value}\r\n");
        }
        head += "\r\n";
        if writer.write_all(head.as_bytes()).is_err() || writer.write_all(body).is_err() {
            return;
        }
    }
}

fn decoded(text: &str) -> String {
    percent_decode_str(text).decode_utf8().unwrap().into_owned()
}

fn read_request(reader: &mut impl BufRead) -> Option<Request> {
    let mut line = String::new();
    reader
        .read_line(&mut line)
        .ok()
        .filter(|count| *count > 0)?;
    let mut words = line.split(' ');
    let (method, target) = (words.next()?.to_owned(), words.next()?.to_owned());
    let mut headers = BTreeMap::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim_end().split_once(':') else {
            break;
        };
        headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
    }
    let byte_len = headers
        .get("content-length")
        .map_or(0, |text| text.parse().unwrap());
    let mut body = vec![0; byte_len];
    reader.read_exact(&mut body).ok()?;
    let (path, query) = target.split_once('?').unwrap_or((&target, ""));
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    let query = pairs
        .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
        .map(|(name, value)| (decoded(name), decoded(&value.replace('+', " "))))
        .collect();
    let key = decoded(path.trim_start_matches('/'));
    Some(Request {
        method,
        key,
        query,
        headers,
        body,
    })
}

/// Nothing: the connection is cut without an answer.
fn respond(request: &Request, state: &mut State) -> Option<Answer> {
    if state.mood == Mood::Forbidden {
        let sent = format!("{:?}", request.headers);
        let body = format!("<Error><Code>AccessDenied</Code><Message>{sent}</Message></Error>");
        return Some(answer("403 Forbidden", body));
    }
    let upload = request.query.get("uploadId");
    Some(match (request.method.as_str(), upload) {
        ("GET", None) if request.query.contains_key("list-type") => list(request, state),
        ("GET" | "HEAD", _) => get(request, state),
        ("PUT", Some(id)) => {
            let part = request.query["partNumber"].parse().unwrap();
            state
                .uploads
                .get_mut(id)?
                .insert(part, request.body.clone());
            let mut done = answer("200 OK", "");
            done.headers.push(("ETag", format!("\"part-{part}\"")));
            done
        }
        ("PUT", None) => return put(request, state),
        ("POST", Some(id)) => {
            let parts = state.uploads.remove(id)?;
            let bytes = parts.into_values().flatten().collect();
            store(state, &request.key, bytes);
            let tag = "<ETag>whole</ETag>";
            answer(
                "200 OK",
                format!("<CompleteMultipartUploadResult>{tag}</CompleteMultipartUploadResult>"),
            )
        }
        ("POST", None) if request.query.contains_key("uploads") => {
            state.next_id += 1;
            let id = format!("upload-{}", state.next_id);
            state.uploads.insert(id.clone(), Parts::new());
            let inner = format!("<UploadId>{id}</UploadId>");
            answer(
                "200 OK",
                format!("<InitiateMultipartUploadResult>{inner}</InitiateMultipartUploadResult>"),
            )
        }
        ("POST", None) if request.query.contains_key("delete") => {
            let text = String::from_utf8_lossy(&request.body).into_owned();
            let mut result = String::from("<DeleteResult>");
            for part in text.split("<Key>").skip(1) {
                let key = part.split("</Key>").next().unwrap();
                let bucket = request.key.trim_end_matches('/');
                state.objects.remove(&format!("{bucket}/{key}"));
                result += &format!("<Deleted><Key>{key}</Key></Deleted>");
            }
            result += "</DeleteResult>";
            answer("200 OK", result)
        }
        ("DELETE", Some(id)) => {
            state.uploads.remove(id);
            answer("204 No Content", "")
        }
        ("DELETE", None) => {
            state.objects.remove(&request.key);
            answer("204 No Content", "")
        }
        _ => answer("400 Bad Request", ""),
    })
}

fn store(state: &mut State, key: &str, bytes: Vec<u8>) -> u64 {
    state.next_id += 1;
    state.objects.insert(key.to_owned(), (bytes, state.next_id));
    state.next_id
}

fn put(request: &Request, state: &mut State) -> Option<Answer> {
    match state.mood {
        Mood::LoseAnswerBeforePut => return None,
        Mood::Conflict409 => {
            return Some(answer(
                "409 Conflict",
                "<Error><Code>ConditionalRequestConflict</Code></Error>",
            ));
        }
        Mood::Precondition412 => return Some(answer("412 Precondition Failed", "")),
        Mood::Well | Mood::LoseAnswerAfterPut | Mood::Forbidden => {}
    }
    let only_if_absent = request
        .headers
        .get("if-none-match")
        .is_some_and(|value| value == "*");
    if only_if_absent && state.objects.contains_key(&request.key) {
        return Some(answer("412 Precondition Failed", ""));
    }
    if let Some(expected) = request.headers.get("if-match") {
        let found = state.objects.get(&request.key);
        if found.is_none_or(|(_, id)| format!("\"{id}\"") != *expected) {
            return Some(answer("412 Precondition Failed", ""));
        }
    }
    let id = store(state, &request.key, request.body.clone());
    if state.mood == Mood::LoseAnswerAfterPut {
        return None;
    }
    let mut done = answer("200 OK", "");
    done.headers.push(("ETag", format!("\"{id}\"")));
    Some(done)
}

/// One time for all objects: no test compares it.
const MODIFIED: &str = "Fri, 01 Jan 2100 00:00:00 GMT";

fn get(request: &Request, state: &State) -> Answer {
    let Some((bytes, id)) = state.objects.get(&request.key) else {
        return answer("404 Not Found", "<Error><Code>NoSuchKey</Code></Error>");
    };
    let size = bytes.len();
    let range = request
        .headers
        .get("range")
        .and_then(|range| range.strip_prefix("bytes="));
    let mut found = match range.map(|range| range.split_once('-').unwrap()) {
        None => answer("200 OK", bytes.clone()),
        Some(_) if size == 0 => return answer("416 Range Not Satisfiable", ""),
        Some((first, last)) => {
            let (start, end) = match (first.parse::<usize>(), last.parse::<usize>()) {
                (Ok(first), Ok(last)) => (first, (last + 1).min(size)),
                (Ok(first), Err(_)) => (first, size),
                (Err(_), Ok(count)) => (size.saturating_sub(count), size),
                (Err(_), Err(_)) => return answer("400 Bad Request", ""),
            };
            if start >= size {
                return answer("416 Range Not Satisfiable", "");
            }
            let mut part = answer("206 Partial Content", &bytes[start..end]);
            part.headers
                .push(("Content-Range", format!("bytes {start}-{}/{size}", end - 1)));
            part
        }
    };
    found.headers.push(("ETag", format!("\"{id}\"")));
    found.headers.push(("Last-Modified", MODIFIED.to_owned()));
    found
}

fn list(request: &Request, state: &State) -> Answer {
    let bucket = request.key.trim_end_matches('/');
    let prefix = request.query.get("prefix").map_or("", String::as_str);
    let is_shallow = request.query.contains_key("delimiter");
    let escape = |text: &str| text.replace('&', "&amp;").replace('<', "&lt;");
    let mut body = String::from("<ListBucketResult><IsTruncated>false</IsTruncated>");
    for (key, (bytes, id)) in &state.objects {
        let Some(key) = key.strip_prefix(&format!("{bucket}/")) else {
            continue;
        };
        let Some(rest) = key.strip_prefix(prefix) else {
            continue;
        };
        if is_shallow && rest.contains('/') {
            continue;
        }
        let (key, size) = (escape(key), bytes.len());
        body += &format!(
            "<Contents><Key>{key}</Key><Size>{size}</Size><ETag>\"{id}\"</ETag>\
             <LastModified>2100-01-01T00:00:00.000Z</LastModified></Contents>"
        );
    }
    body += "</ListBucketResult>";
    answer("200 OK", body)
}
