//! Whether time passes: in tests of schedules it stands still, and pauses between attempts cost nothing.

/// True in a thread of a test that steps on by itself; then nobody sleeps.
#[must_use]
pub fn time_stands_still() -> bool {
    #[cfg(feature = "testing")]
    {
        crate::testing::stands_still()
    }
    #[cfg(not(feature = "testing"))]
    {
        false
    }
}
