//! Pauses between the attempts of writers that conflict. A pause is random, so that two writers that conflicted once do not
//! start at the same time again, and fair: a writer does not wait longer because it has waited before.
//!
//! A writer that doubles its maximum pause with each lost attempt leaves the table to writers that have just started. So
//! the maximum follows what the writer observed: the duration of an attempt and the number of commits by others during it.
//! It shrinks with each lost attempt.

use std::sync::Arc;
use std::time::{Duration, Instant};

use pilum_store::{Store, Timer};
use rand::Rng;

use crate::versions::timer;

/// Range of the maximum pause.
const SHORTEST: Duration = Duration::from_millis(1);
const LONGEST: Duration = Duration::from_millis(500);

/// The pauses of one writer.
#[derive(Debug)]
pub(crate) struct Backoff {
    /// How pauses pass, where they do not take real time.
    timer: Option<Arc<dyn Timer>>,
    losses: u32,
    /// When the attempt began.
    begun: Instant,
}

impl Backoff {
    pub(crate) fn new(store: &Store) -> Self {
        Self {
            timer: store.timer().map(Arc::clone),
            losses: 0,
            begun: Instant::now(),
        }
    }

    /// Pauses after an attempt during which `rivals` others committed; the next attempt begins when it returns.
    pub(crate) async fn wait(&mut self, rivals: u64) {
        self.losses = self.losses.saturating_add(1);
        let bound = bound(self.begun.elapsed(), rivals, self.losses);
        let pause = rand::rng().random_range(Duration::ZERO..=bound);
        match &self.timer {
            Some(timer) => timer.sleep(pause).await,
            None => timer::sleep(pause).await,
        }
        self.begun = Instant::now();
    }
}

/// The longest pause after an attempt of this length.
fn bound(attempt: Duration, rivals: u64, losses: u32) -> Duration {
    let rivals = u32::try_from(rivals.clamp(1, 64)).unwrap_or(64);
    (attempt.saturating_mul(2 * rivals) / losses.clamp(1, 8)).clamp(SHORTEST, LONGEST)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;
    use rand::rngs::StdRng;

    const WRITERS: usize = 16;
    const APPENDS: u32 = 50;

    /// Writers that append as fast as they can, on a clock of microseconds: an append writes its files, which takes as
    /// long as an attempt or twice as long; an attempt looks at the table, takes its time, and wins if nobody else
    /// did meanwhile. Gives the time at which each had made all its commits.
    fn race(seed: u64, bound: impl Fn(Duration, u64, u32) -> Duration) -> Vec<u64> {
        #[derive(Clone, Copy, Default)]
        struct Writer {
            /// When the attempt began, and when it ends.
            begun: u64,
            ends: u64,
            losses: u32,
            done: u32,
        }
        let mut random = StdRng::seed_from_u64(seed);
        let mut attempt = move || random.random_range(800..1200_u64);
        let mut random = StdRng::seed_from_u64(!seed);
        let mut write = move || random.random_range(800..2400_u64);
        let mut pauses = StdRng::seed_from_u64(seed ^ 1);
        let mut writers = [Writer::default(); WRITERS];
        for writer in &mut writers {
            writer.begun = write();
            writer.ends = writer.begun + attempt();
        }
        let mut history = vec![0];
        let mut finished = vec![0; WRITERS];
        loop {
            let running = (0..WRITERS).filter(|it| writers[*it].done < APPENDS);
            let Some(next) = running.min_by_key(|it| writers[*it].ends) else {
                return finished;
            };
            let writer = &mut writers[next];
            let now = writer.ends;
            // It knew what was committed when it began.
            let rivals = history.iter().rev().take_while(|it| **it > writer.begun);
            let rivals = rivals.count() as u64;
            if rivals == 0 {
                history.push(now);
                writer.done += 1;
                writer.losses = 0;
                finished[next] = now;
                writer.begun = now + write();
            } else {
                writer.losses += 1;
                let took = Duration::from_micros(now - writer.begun);
                let bound = bound(took, rivals, writer.losses).as_micros();
                let pause = pauses.random_range(0..=u64::try_from(bound).unwrap());
                writer.begun = now + pause;
            }
            writer.ends = writer.begun + attempt();
        }
    }

    fn unfairness(finished: &[u64]) -> f64 {
        let (slowest, fastest) = (finished.iter().max(), finished.iter().min());
        *slowest.unwrap() as f64 / *fastest.unwrap() as f64
    }

    #[test]
    fn the_slowest_of_sixteen_writers_takes_at_most_three_times_as_long_as_the_fastest() {
        for seed in 0..200 {
            let ratio = unfairness(&race(seed, bound));
            assert!(ratio <= 3.0, "seed {seed}: {ratio}");
        }
    }

    #[test]
    fn a_doubling_bound_would_not_be_fair() {
        let doubling = |_: Duration, _: u64, losses: u32| {
            Duration::from_millis(4 << losses.min(10)).min(Duration::from_millis(500))
        };
        let unfair = (0..200).filter(|seed| unfairness(&race(*seed, doubling)) > 3.0);
        assert!(unfair.count() > 0, "the simulation shows what it should");
    }

    #[test]
    fn bounds_grow_with_rivals_and_shrink_with_losses() {
        let attempt = Duration::from_millis(10);
        assert_eq!(bound(attempt, 0, 1), attempt * 2);
        assert_eq!(bound(attempt, 8, 1), attempt * 16);
        assert_eq!(bound(attempt, 8, 4), attempt * 4);
        assert_eq!(bound(Duration::ZERO, 1, 1), SHORTEST);
        assert_eq!(bound(Duration::MAX, u64::MAX, 0), LONGEST);
    }
}
