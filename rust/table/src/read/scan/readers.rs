//! Tasks read side by side and handed out in order, or as they are ready.
//!
//! Readers on the runtime's blocking threads take tasks from one queue. The consumer is a reader too: it takes a task
//! whenever no batch is ready for it, so it never sleeps while a task waits, and one reader beside it keeps two processors
//! busy. At most `max_in_flight` tasks are read or wait to be consumed: that bounds the memory of a scan.
//!
//! After an error no further task is queued. What was read before it is handed out first: all tasks before it in row order, or
//! all tasks in flight where order does not matter.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::stream::{BoxStream, StreamExt};
use tokio::runtime::Handle;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::planned::Scan;
use super::read_task::TaskOutput;
use super::tasks::Task;
use crate::error::{Error, Result};

/// A task that was read, or why it was not.
type Outcome = Result<TaskOutput>;

/// Tasks that no reader has taken, and how many readers are at work.
#[derive(Default)]
struct Queue {
    tasks: VecDeque<(u64, Task)>,
    readers: usize,
}

/// A task that a reader on another thread has taken. An outcome is sent for it in any case, even when the reader panics:
/// otherwise the consumer would wait for it forever.
struct Taken {
    number: u64,
    outcomes: UnboundedSender<(u64, Outcome)>,
    is_sent: bool,
}

impl Taken {
    fn send(mut self, outcome: Outcome) {
        self.is_sent = true;
        // An error means that the scan was dropped: no one needs the outcome.
        let _ = self.outcomes.send((self.number, outcome));
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        if !self.is_sent {
            let what = format!(
                "the thread that read task {} of a scan stopped",
                self.number
            );
            // As above.
            let _ = self.outcomes.send((self.number, Err(Error::bug(what))));
        }
    }
}

/// The consumer's side.
pub(super) struct Readers {
    scan: Arc<Scan>,
    runtime: Handle,
    tasks: BoxStream<'static, Result<Task>>,
    queue: Arc<Mutex<Queue>>,
    sender: UnboundedSender<(u64, Outcome)>,
    receiver: UnboundedReceiver<(u64, Outcome)>,
    /// Outcomes that were not handed out yet, by the number of their task.
    finished: BTreeMap<u64, Outcome>,
    next_in: u64,
    next_out: u64,
    in_flight: usize,
    /// No further task is queued.
    is_ended: bool,
    max_readers: usize,
    max_in_flight: usize,
}

impl Readers {
    /// Readers of a scan on threads of `runtime`.
    pub(super) fn new(scan: Arc<Scan>, runtime: Handle) -> Self {
        let (sender, receiver) = unbounded_channel();
        Self {
            tasks: scan.tasks(),
            max_readers: scan.readers_beside_consumer(),
            max_in_flight: scan.tasks_in_flight(),
            scan,
            runtime,
            queue: Arc::default(),
            sender,
            receiver,
            finished: BTreeMap::new(),
            next_in: 0,
            next_out: 0,
            in_flight: 0,
            is_ended: false,
        }
    }

    /// A stream of the finished tasks. The stream ends after its first error.
    pub(super) fn outputs(self) -> BoxStream<'static, Outcome> {
        futures::stream::try_unfold(self, |mut readers| async move {
            Ok(readers.next().await?.map(|output| (output, readers)))
        })
        .boxed()
    }

    async fn next(&mut self) -> Result<Option<TaskOutput>> {
        self.fill().await;
        loop {
            while let Ok((number, outcome)) = self.receiver.try_recv() {
                self.finish(number, outcome);
            }
            if let Some(outcome) = self.ready() {
                self.in_flight -= 1;
                return outcome.map(Some);
            }
            if self.in_flight == 0 {
                return Ok(None);
            }
            let waiting = self.lock().tasks.pop_front();
            let (number, outcome) = match waiting {
                Some((number, task)) => (number, self.scan.read(task).await),
                // Every task in flight that is neither finished nor waiting was taken by a reader, which sends an outcome.
                None => match self.receiver.recv().await {
                    Some(outcome) => outcome,
                    None => return Err(Error::bug("the readers of a scan closed their channel")),
                },
            };
            self.finish(number, outcome);
        }
    }

    fn finish(&mut self, number: u64, outcome: Outcome) {
        self.is_ended |= outcome.is_err();
        self.finished.insert(number, outcome);
    }

    /// The outcome to hand out next. Where order does not matter, errors come after all rows in flight.
    fn ready(&mut self) -> Option<Outcome> {
        let number = if !self.scan.options.unordered {
            self.next_out
        } else if let Some((number, _)) = self.finished.iter().find(|(_, it)| it.is_ok()) {
            *number
        } else if self.finished.len() == self.in_flight {
            *self.finished.keys().next()?
        } else {
            return None;
        };
        let outcome = self.finished.remove(&number)?;
        self.next_out += 1;
        Some(outcome)
    }

    /// Queues tasks up to the most in flight, and starts readers for them.
    async fn fill(&mut self) {
        while !self.is_ended && self.in_flight < self.max_in_flight {
            let Some(task) = self.tasks.next().await else {
                self.is_ended = true;
                return;
            };
            let number = self.next_in;
            self.next_in += 1;
            self.in_flight += 1;
            match task {
                Ok(task) => self.enqueue(number, task),
                // The error takes the place of a task, so that the rows before it are handed out first.
                Err(error) => self.finish(number, Err(error)),
            }
        }
    }

    fn enqueue(&self, number: u64, task: Task) {
        let mut queue = self.lock();
        queue.tasks.push_back((number, task));
        if queue.readers < self.max_readers {
            queue.readers += 1;
            drop(queue);
            self.start_reader();
        }
    }

    fn start_reader(&self) {
        let (scan, runtime) = (Arc::clone(&self.scan), self.runtime.clone());
        let (queue, outcomes) = (Arc::clone(&self.queue), self.sender.clone());
        self.runtime.spawn_blocking(move || {
            while let Some((number, task)) = take_task(&queue) {
                let taken = Taken {
                    number,
                    outcomes: outcomes.clone(),
                    is_sent: false,
                };
                let outcome = runtime.block_on(scan.read(task));
                taken.send(outcome);
            }
        });
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        lock(&self.queue)
    }
}

impl Drop for Readers {
    /// Readers finish the tasks that they have taken, and then stop.
    fn drop(&mut self) {
        self.lock().tasks.clear();
    }
}

/// The next task, or none: then this reader no longer counts.
fn take_task(queue: &Mutex<Queue>) -> Option<(u64, Task)> {
    let mut queue = lock(queue);
    let task = queue.tasks.pop_front();
    if task.is_none() {
        queue.readers -= 1;
    }
    task
}

/// No statement under the lock leaves the queue half changed, so a panic elsewhere leaves it usable.
fn lock(queue: &Mutex<Queue>) -> MutexGuard<'_, Queue> {
    queue.lock().unwrap_or_else(PoisonError::into_inner)
}
