//! Encodings with an entropy coder behind them, for pages of mode `small`.

pub(crate) mod coded;
mod frames;
pub(crate) mod planes;
