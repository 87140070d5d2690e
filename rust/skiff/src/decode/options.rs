//! How a stream is decoded: sizes of batches, what is checked, and limits.

use crate::yson::Limits;

/// How a stream is decoded.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct DecodeOptions {
    /// Most rows of a batch.
    pub batch_rows: usize,
    /// Bytes of memory, estimated, at which a batch is cut. All tables together hold no more than this and one row.
    pub batch_bytes: usize,
    /// True: batches come in the order of the rows, a new one wherever the table changes. False: the rows of every table are
    /// collected, and only their order within the table is kept.
    pub keeps_order: bool,
    /// Whether a new batch begins at every row whose `$key_switch` is true.
    pub cuts_at_key_switch: bool,
    /// Whether the stream ends with the tag `FF FF`, as with the control attribute `enable_end_of_stream`.
    pub has_end_of_stream: bool,
    /// Whether every `yson32` is checked to be one YSON node.
    pub validates_yson: bool,
    /// Whether NaN and infinities of decimals become nulls in nullable columns, and are counted; otherwise they are errors.
    pub special_as_null: bool,
    /// Whether a key of `$other_columns` that is the name of a column too is an error; otherwise it stays in the map.
    pub rejects_duplicates: bool,
    /// Whether tables with a sparse part get the column `$sparse_columns`, a list of the tags of each row in their order on
    /// the wire. An encoder that is given this column writes the same bytes again.
    pub keeps_sparse_order: bool,
    /// Most bytes of one row, on the wire and, for its lists, in memory.
    pub max_row_bytes: usize,
    /// Limits of YSON nodes.
    pub yson_limits: Limits,
}

impl Default for DecodeOptions {
    fn default() -> Self {
        Self {
            batch_rows: 65_536,
            batch_bytes: 16 << 20,
            keeps_order: true,
            cuts_at_key_switch: false,
            has_end_of_stream: false,
            validates_yson: true,
            special_as_null: false,
            rejects_duplicates: true,
            keeps_sparse_order: false,
            max_row_bytes: 256 << 20,
            yson_limits: Limits::default(),
        }
    }
}
