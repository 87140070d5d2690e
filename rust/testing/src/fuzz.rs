//! Bytes without end for one decoder.

use std::panic::AssertUnwindSafe;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::memory::{most_bytes, peak_bytes, set_case};
use crate::mutate::mutate;
use crate::random::Random;
use crate::watch::watched;

/// Runs `decode`, which reads `input` bytes, within the limits that every input must keep: no panic, and memory for no more
/// than [`most_bytes`]. Returns what it returned and the bytes that it held.
pub fn attack<T>(
    input: usize,
    what: &dyn Fn() -> String,
    decode: impl FnOnce() -> T,
) -> (T, usize) {
    let (outcome, peak) = peak_bytes(|| std::panic::catch_unwind(AssertUnwindSafe(decode)));
    let outcome = outcome.unwrap_or_else(|_| panic!("panic: {}", what()));
    let most = most_bytes(input);
    assert!(
        peak <= most,
        "{peak} bytes of memory for {input}: {}",
        what()
    );
    (outcome, peak)
}

/// A decoder, what it is fed with, and how a damaged input is made whole enough to get past the first check.
pub struct Target<'a> {
    /// Names the corpus and the failures.
    pub name: &'a str,
    /// Well-formed inputs.
    pub corpus: Vec<Vec<u8>>,
    /// Damages an input where its structure is known; after it the bytes may be damaged at random too.
    pub damage: &'a dyn Fn(&mut Vec<u8>, &mut Random),
    /// Makes checksums right again, so that what lies behind them is reached.
    pub mend: &'a dyn Fn(&mut Vec<u8>),
    /// Decodes; true when the input was read as if it were sound.
    pub decode: &'a dyn Fn(&[u8], &mut Random) -> bool,
}

impl std::fmt::Debug for Target<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {} inputs", self.name, self.corpus.len())
    }
}

/// Inputs that have grown beyond this are fed as they are.
const MOST_BYTES: usize = 1 << 20;

/// Feeds damaged inputs to a decoder: `cases` of them, or for as many seconds as `PILUM_FUZZ_SECONDS` says.
///
/// Files in `kept` whose names begin with that of the target are inputs too: what once broke a decoder stays.
pub fn fuzz(target: &Target<'_>, kept: &Path, cases: u64) {
    let mut corpus = target.corpus.clone();
    let mut files: Vec<_> = std::fs::read_dir(kept)
        .unwrap()
        .map(|it| it.unwrap().path())
        .collect();
    files.sort();
    for path in files {
        let name = path.file_name().unwrap().to_string_lossy();
        if name
            .strip_prefix(target.name)
            .is_some_and(|rest| rest.starts_with('-'))
        {
            corpus.push(std::fs::read(&path).unwrap());
        }
    }
    assert!(!corpus.is_empty(), "{}: nothing to damage", target.name);
    let seconds = std::env::var("PILUM_FUZZ_SECONDS").ok();
    let seconds = seconds.map(|it| Duration::from_secs(it.parse().unwrap()));
    let first = std::env::var("PILUM_FUZZ_SEED").map_or(0, |it| it.parse().unwrap());
    let start = Instant::now();
    let (mut seed, mut read, mut most) = (first, 0_u64, 0);
    watched(|progress| {
        let is_over = |seed: u64| match seconds {
            Some(seconds) => start.elapsed() >= seconds,
            None => seed - first >= cases,
        };
        while !is_over(seed) {
            progress.store(seed + 1, Ordering::Relaxed);
            set_case(seed);
            let random = &mut Random(seed);
            let mut bytes = random.pick(&corpus).clone();
            // The first inputs go in as they are.
            if let Some(sound) = corpus.get((seed - first) as usize) {
                bytes.clone_from(sound);
            } else {
                let way = random.below(4);
                if way > 0 {
                    (target.damage)(&mut bytes, random);
                }
                if way < 2 {
                    mutate(&mut bytes, random);
                }
                if !random.one_in(8) && bytes.len() < MOST_BYTES {
                    (target.mend)(&mut bytes);
                }
            }
            let what = || format!("{}: seed {seed}", target.name);
            let (is_sound, peak) = attack(bytes.len(), &what, || (target.decode)(&bytes, random));
            read += u64::from(is_sound);
            most = most.max(peak);
            seed += 1;
        }
    });
    let total = seed - first;
    eprintln!(
        "{}: {total} inputs from seed {first} in {:.1} s, {read} of them read, {most} bytes at most",
        target.name,
        start.elapsed().as_secs_f64()
    );
    assert!(
        read > 0 && read < total,
        "{}: {read} of {total} read",
        target.name
    );
}
