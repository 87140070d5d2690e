//! What all statements return: the version that they made or found.

use crate::commit::Committed;

/// What a statement did.
pub(crate) trait StatementOutcome {
    /// The outcome of a commit for which this call wrote or removed no row: there was nothing to do, the schema or the
    /// settings alone changed, or an earlier call with the same commit id did it.
    fn without_rows(committed: Committed) -> Self;

    /// The version that the statement made, or found.
    fn committed(&self) -> &Committed;
}

impl StatementOutcome for Committed {
    fn without_rows(committed: Committed) -> Self {
        committed
    }

    fn committed(&self) -> &Committed {
        self
    }
}
