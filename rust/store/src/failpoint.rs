//! Named places where a test may make a step fail, or end the process, to see what is left behind.
//!
//! Off by default: without the feature `failpoints` [`hit`] is an empty function. With it, the environment
//! variable `PILUM_FAILPOINT` (or `arm`) holds `name=abort` or `name=error`, with `@n` for the n-th
//! time the place is reached, several separated by `;`.

#[cfg(feature = "failpoints")]
pub use armed::{Arming, Counting, arm, count};

/// All places, of this crate and of those above it, by what they stand in. The steps of the model of the commit
/// protocol have these names too, and tests hold sources, model and list together.
pub const PLACES: [&str; 49] = [
    // One operation of a table, around the steps of the store.
    "commit.before_marker",
    "commit.before_transaction",
    "commit.after_transaction",
    "commit.before_manifest",
    "commit.before_answer",
    "commit.before_removal",
    "compact.before_rewrite",
    "pieces.before_rewrite",
    "pieces.before_removal",
    "cleanup.before_orphans",
    "cleanup.before_manifests",
    "cleanup.before_unneeded",
    "cleanup.before_answer",
    // A folder that is not there yet.
    "folder.before_create",
    "folder.before_fsync",
    "folder.after_fsync",
    // A data file, written under its own name.
    "writer.before_create",
    "writer.before_write",
    "writer.after_write",
    "writer.before_fsync",
    "writer.after_fsync",
    "writer.before_folder_fsync",
    "writer.after_folder_fsync",
    // A small file, complete before it has its name.
    "stage.before_create",
    "stage.before_write",
    "stage.before_fsync",
    "stage.after_fsync",
    "create.before_link",
    "create.after_link",
    "create.before_folder_fsync",
    "create.after_folder_fsync",
    "put.before_rename",
    "put.after_rename",
    "put.before_folder_fsync",
    "put.after_folder_fsync",
    // A file less.
    "delete.before",
    "delete.after",
    "names.before_fsync",
    "names.after_fsync",
    // Object stores.
    "object.before_put",
    "object.after_put",
    // A register of versions beside the store.
    "external.before_stage",
    "external.after_stage",
    "register.before_insert",
    "register.after_insert",
    "external.after_insert",
    "external.after_final",
    "external.after_update",
    "external.after_delete",
];

/// Pass the place `name` while working on `path`; fails or aborts when a test asked for it.
///
/// # Errors
/// Only when armed with `error`: a full disk, as the kernel would report it.
#[cfg(not(feature = "failpoints"))]
#[inline(always)]
pub fn hit(_name: &'static str, _path: &str) -> std::io::Result<()> {
    Ok(())
}

/// Pass the place `name` while working on `path`; fails or aborts when a test asked for it.
///
/// # Errors
/// Only when armed with `error`: a full disk, as the kernel would report it.
#[cfg(feature = "failpoints")]
pub fn hit(name: &'static str, path: &str) -> std::io::Result<()> {
    armed::hit(name, path)
}

#[cfg(feature = "failpoints")]
mod armed {
    use std::collections::BTreeMap;
    use std::io;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

    #[derive(Debug, Clone, Copy)]
    enum Action {
        Abort,
        Error,
    }

    #[derive(Debug)]
    struct Armed {
        name: String,
        action: Action,
        /// Passes still to survive before the action is taken.
        remaining: u64,
        /// Only while working on a path holding this text.
        only: Option<String>,
        /// Whose it is; 0: the environment's.
        arming: u64,
    }

    static ARMED: LazyLock<Mutex<Vec<Armed>>> = LazyLock::new(|| {
        let spec = std::env::var("PILUM_FAILPOINT").unwrap_or_default();
        Mutex::new(parse(&spec, None, 0))
    });

    fn places() -> MutexGuard<'static, Vec<Armed>> {
        lock(&ARMED)
    }

    /// Places are armed while it lives.
    #[derive(Debug)]
    #[must_use]
    pub struct Arming(u64);

    impl Drop for Arming {
        fn drop(&mut self) {
            places().retain(|it| it.arming != self.0);
        }
    }

    /// Arm places by the grammar of `PILUM_FAILPOINT`, only for paths that contain `only`, so that tests
    /// in one process do not disturb each other.
    pub fn arm(spec: &str, only: &str) -> Arming {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let arming = NEXT.fetch_add(1, Ordering::Relaxed);
        places().extend(parse(spec, Some(only), arming));
        Arming(arming)
    }

    type Passes = Arc<Mutex<BTreeMap<&'static str, u64>>>;

    static COUNTING: Mutex<Vec<(String, Passes)>> = Mutex::new(Vec::new());

    /// Counts while it lives.
    #[derive(Debug)]
    pub struct Counting(Passes);

    /// Counts how often each place is passed while working on paths that contain `only`.
    #[must_use]
    pub fn count(only: &str) -> Counting {
        let passes = Passes::default();
        let counting = (only.to_owned(), Arc::clone(&passes));
        lock(&COUNTING).push(counting);
        Counting(passes)
    }

    impl Counting {
        /// The places passed so far.
        #[must_use]
        pub fn passes(&self) -> BTreeMap<&'static str, u64> {
            lock(&self.0).clone()
        }
    }

    impl Drop for Counting {
        fn drop(&mut self) {
            lock(&COUNTING).retain(|(_, passes)| !Arc::ptr_eq(passes, &self.0));
        }
    }

    fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
        mutex.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn parse(spec: &str, only: Option<&str>, arming: u64) -> Vec<Armed> {
        spec.split(';')
            .filter_map(|one| {
                let (name, action) = one.trim().split_once('=')?;
                let (action, count) = action.split_once('@').unwrap_or((action, "1"));
                let action = match action {
                    "abort" => Action::Abort,
                    "error" => Action::Error,
                    _ => return None,
                };
                let remaining = count.parse::<u64>().ok()?.saturating_sub(1);
                Some(Armed {
                    name: name.to_owned(),
                    action,
                    remaining,
                    only: only.map(str::to_owned),
                    arming,
                })
            })
            .collect()
    }

    pub(super) fn hit(name: &'static str, path: &str) -> io::Result<()> {
        for (only, passes) in lock(&COUNTING).iter() {
            if path.contains(only.as_str()) {
                *lock(passes).entry(name).or_default() += 1;
            }
        }
        for armed in places().iter_mut().filter(|it| it.name == name) {
            let is_elsewhere = |only: &String| !path.contains(only.as_str());
            if armed.only.as_ref().is_some_and(is_elsewhere) {
                continue;
            }
            if armed.remaining > 0 {
                armed.remaining -= 1;
                continue;
            }
            match armed.action {
                Action::Abort => std::process::abort(),
                // Sticks, as a full disk does.
                Action::Error => return Err(io::Error::from(io::ErrorKind::StorageFull)),
            }
        }
        Ok(())
    }
}
