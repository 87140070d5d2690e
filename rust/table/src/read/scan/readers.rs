//! Pieces read side by side and handed out in order, or as they come.
//!
//! Readers on the runtime's blocking threads take pieces from one queue. The consumer is a reader too: it takes a piece
//! whenever none is ready for it, so that it never sleeps while there is work, and a machine of two processors is kept
//! busy by one reader beside it. In flight are at most `depth` pieces: that bounds the memory of a scan.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arrow_array::RecordBatch;
use futures::stream::{BoxStream, StreamExt};
use tokio::runtime::Handle;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::scan::{Outcome, Piece, Scan};
use crate::error::{Error, Result};

/// Pieces that nobody reads yet, and how many readers are at work.
#[derive(Default)]
struct Queue {
    pieces: VecDeque<(u64, Piece)>,
    readers: usize,
}

/// A piece that a reader has taken: something is sent for it, whatever happens to the reader.
struct Taken {
    number: u64,
    outcomes: UnboundedSender<(u64, Outcome)>,
    sent: bool,
}

impl Taken {
    fn send(mut self, outcome: Outcome) {
        self.sent = true;
        // Nobody listens any more when the scan was dropped.
        let _ = self.outcomes.send((self.number, outcome));
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        if !self.sent {
            let stopped = Error::corrupt(format!("the reader of piece {} stopped", self.number));
            let _ = self.outcomes.send((self.number, Err(stopped)));
        }
    }
}

/// The consumer's side.
pub(super) struct Readers {
    scan: Arc<Scan>,
    handle: Handle,
    pieces: BoxStream<'static, Result<Piece>>,
    queue: Arc<Mutex<Queue>>,
    sender: UnboundedSender<(u64, Outcome)>,
    outcomes: UnboundedReceiver<(u64, Outcome)>,
    /// Outcomes that came before their turn.
    early: BTreeMap<u64, Outcome>,
    next_in: u64,
    next_out: u64,
    in_flight: usize,
    ended: bool,
    most_readers: usize,
    depth: usize,
}

impl Readers {
    /// `most_readers` beside the consumer, `depth` pieces in flight.
    pub(super) fn new(
        scan: Arc<Scan>,
        handle: Handle,
        pieces: BoxStream<'static, Result<Piece>>,
        most_readers: usize,
        depth: usize,
    ) -> Self {
        let (sender, outcomes) = unbounded_channel();
        Self {
            scan,
            handle,
            pieces,
            queue: Arc::default(),
            sender,
            outcomes,
            early: BTreeMap::new(),
            next_in: 0,
            next_out: 0,
            in_flight: 0,
            ended: false,
            most_readers,
            depth,
        }
    }

    /// What was read, as a stream; it ends after the first error.
    pub(super) fn outcomes(self) -> BoxStream<'static, Outcome> {
        futures::stream::try_unfold(self, |mut readers| async move {
            Ok(readers.next().await?.map(|outcome| (outcome, readers)))
        })
        .boxed()
    }

    async fn next(&mut self) -> Result<Option<(Piece, Option<RecordBatch>)>> {
        self.fill().await?;
        loop {
            while let Ok((number, outcome)) = self.outcomes.try_recv() {
                self.early.insert(number, outcome);
            }
            if let Some(outcome) = self.ready() {
                self.in_flight -= 1;
                return outcome.map(Some);
            }
            if self.in_flight == 0 {
                return Ok(None);
            }
            let mine = self.lock().pieces.pop_front();
            let (number, outcome) = match mine {
                Some((number, piece)) => (number, self.scan.read(piece).await),
                // This side keeps a sender, so that an end of the channel cannot be seen: readers answer for what they took.
                None => match self.outcomes.recv().await {
                    Some(answer) => answer,
                    None => return Ok(None),
                },
            };
            self.early.insert(number, outcome);
        }
    }

    /// The outcome whose turn it is.
    fn ready(&mut self) -> Option<Outcome> {
        let number = if self.scan.options.unordered {
            *self.early.keys().next()?
        } else {
            self.next_out
        };
        let outcome = self.early.remove(&number)?;
        self.next_out += 1;
        Some(outcome)
    }

    /// Queues pieces up to the depth, and calls readers for them.
    async fn fill(&mut self) -> Result<()> {
        while !self.ended && self.in_flight < self.depth {
            let Some(piece) = self.pieces.next().await else {
                self.ended = true;
                break;
            };
            let piece = piece?;
            self.in_flight += 1;
            let mut queue = self.lock();
            queue.pieces.push_back((self.next_in, piece));
            let more = queue.readers < self.most_readers;
            queue.readers += usize::from(more);
            drop(queue);
            self.next_in += 1;
            if more {
                self.call_reader();
            }
        }
        Ok(())
    }

    fn call_reader(&self) {
        let (scan, worker) = (Arc::clone(&self.scan), self.handle.clone());
        let (queue, outcomes) = (Arc::clone(&self.queue), self.sender.clone());
        self.handle.spawn_blocking(move || {
            while let Some((number, piece)) = taken(&queue) {
                let taken = Taken {
                    number,
                    outcomes: outcomes.clone(),
                    sent: false,
                };
                let outcome = worker.block_on(scan.read(piece));
                taken.send(outcome);
            }
        });
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        lock(&self.queue)
    }
}

impl Drop for Readers {
    fn drop(&mut self) {
        self.lock().pieces.clear();
    }
}

/// The next piece, or none: then this reader has left.
fn taken(queue: &Mutex<Queue>) -> Option<(u64, Piece)> {
    let mut queue = lock(queue);
    let piece = queue.pieces.pop_front();
    if piece.is_none() {
        queue.readers -= 1;
    }
    piece
}

/// A queue is whole between any two statements, so a panic elsewhere leaves it usable.
fn lock(queue: &Mutex<Queue>) -> MutexGuard<'_, Queue> {
    queue.lock().unwrap_or_else(PoisonError::into_inner)
}
