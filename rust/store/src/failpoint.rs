//! Fail points: named places in the code where a test makes a step fail or ends the process, to see what is left behind.
//!
//! Without the feature `failpoints`, [`hit`] is an empty function. With it, the environment variable `PILUM_FAILPOINT`, or a
//! call of `arm`, holds `name=abort` or `name=error`; `@n` behind it means the n-th time that the place is reached.
//! Several are separated by `;`.

#[cfg(feature = "failpoints")]
pub use armed::{Arming, Counting, arm, count};

/// The fail points of this crate, by the operation that they lie in. The crates above list theirs where they lie; a test holds the
/// lists and the sources together.
pub const PLACES: [&str; 30] = [
    // Making a missing folder.
    "folder.before_create",
    "folder.before_fsync",
    "folder.after_fsync",
    // Writing a data file under its own name.
    "writer.before_create",
    "writer.before_write",
    "writer.after_write",
    "writer.before_fsync",
    "writer.after_fsync",
    "writer.before_folder_fsync",
    "writer.after_folder_fsync",
    // Writing a small file that is complete before it has its name.
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
    // Removing a file.
    "delete.before",
    "delete.after",
    "names.before_fsync",
    "names.after_fsync",
    // Object stores.
    "object.before_put",
    "object.after_put",
    // A register of versions beside the store.
    "register.before_insert",
    "register.after_insert",
];

/// Passes the place `name` during work on `path`. Fails, or ends the process, when a test armed the place.
///
/// # Errors
/// When the place is armed with `error`: the error of the kernel for a full disk.
#[cfg(not(feature = "failpoints"))]
#[inline(always)]
pub fn hit(_name: &'static str, _path: &str) -> std::io::Result<()> {
    Ok(())
}

/// Passes the place `name` during work on `path`. Fails, or ends the process, when a test armed the place.
///
/// # Errors
/// When the place is armed with `error`: the error of the kernel for a full disk.
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
        /// How often the place is still passed before the action is taken.
        remaining: u64,
        /// Only for work on a path that contains this text.
        only: Option<String>,
        /// The number of the [`Arming`]; 0 for the environment variable.
        arming: u64,
    }

    static ARMED: LazyLock<Mutex<Vec<Armed>>> = LazyLock::new(|| {
        let spec = std::env::var("PILUM_FAILPOINT").unwrap_or_default();
        Mutex::new(parse(&spec, None, 0))
    });

    fn places() -> MutexGuard<'static, Vec<Armed>> {
        lock(&ARMED)
    }

    /// Keeps places armed until it is dropped.
    #[derive(Debug)]
    #[must_use]
    pub struct Arming(u64);

    impl Drop for Arming {
        fn drop(&mut self) {
            places().retain(|it| it.arming != self.0);
        }
    }

    /// Arms places by the grammar of `PILUM_FAILPOINT` for paths that contain `only`, so that tests in one process do not
    /// disturb each other.
    pub fn arm(spec: &str, only: &str) -> Arming {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let arming = NEXT.fetch_add(1, Ordering::Relaxed);
        places().extend(parse(spec, Some(only), arming));
        Arming(arming)
    }

    type Passes = Arc<Mutex<BTreeMap<&'static str, u64>>>;

    static COUNTING: Mutex<Vec<(String, Passes)>> = Mutex::new(Vec::new());

    /// Counts passes until it is dropped.
    #[derive(Debug)]
    pub struct Counting(Passes);

    /// Counts how often each place is passed during work on paths that contain `only`.
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
                // The place stays armed: a full disk stays full.
                Action::Error => return Err(io::Error::from(io::ErrorKind::StorageFull)),
            }
        }
        Ok(())
    }
}
