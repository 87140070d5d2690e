//! Named places where a test may make a step fail, or end the process, to see what is left behind.
//!
//! Off by default: without the feature `failpoints` [`hit`] is an empty function. With it, the environment
//! variable `PILUM_FAILPOINT` (or `arm`) holds `name=abort` or `name=error`, with `@n` for the n-th
//! time the place is reached, several separated by `;`.

#[cfg(feature = "failpoints")]
pub use armed::{arm, disarm};

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
    use std::collections::HashMap;
    use std::io;
    use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

    #[derive(Debug, Clone, Copy)]
    enum Action {
        Abort,
        Error,
    }

    #[derive(Debug)]
    struct Armed {
        action: Action,
        /// Passes still to survive before the action is taken.
        remaining: u64,
        /// Only while working on a path holding this text.
        only: Option<String>,
    }

    static ARMED: LazyLock<Mutex<HashMap<String, Armed>>> = LazyLock::new(|| {
        let spec = std::env::var("PILUM_FAILPOINT").unwrap_or_default();
        Mutex::new(parse(&spec, None))
    });

    fn places() -> MutexGuard<'static, HashMap<String, Armed>> {
        ARMED.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Arm places by the grammar of `PILUM_FAILPOINT`, only for paths that contain `only`, so that tests
    /// in one process do not disturb each other.
    pub fn arm(spec: &str, only: &str) {
        places().extend(parse(spec, Some(only)));
    }

    /// Forget the place `name`.
    pub fn disarm(name: &str) {
        places().remove(name);
    }

    fn parse(spec: &str, only: Option<&str>) -> HashMap<String, Armed> {
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
                Some((
                    name.to_owned(),
                    Armed {
                        action,
                        remaining,
                        only: only.map(str::to_owned),
                    },
                ))
            })
            .collect()
    }

    pub(super) fn hit(name: &'static str, path: &str) -> io::Result<()> {
        let mut places = places();
        let Some(armed) = places.get_mut(name) else {
            return Ok(());
        };
        if armed
            .only
            .as_ref()
            .is_some_and(|only| !path.contains(only.as_str()))
        {
            return Ok(());
        }
        if armed.remaining > 0 {
            armed.remaining -= 1;
            return Ok(());
        }
        match armed.action {
            Action::Abort => std::process::abort(),
            // Sticks, as a full disk does.
            Action::Error => Err(io::Error::from(io::ErrorKind::StorageFull)),
        }
    }
}
