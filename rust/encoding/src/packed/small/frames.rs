//! zstd frames as packed pages hold them: one frame without checksum, dictionary and content size, whose decoded length the page states.

use zstd::bulk::{Compressor, Decompressor};
use zstd::zstd_safe::{CParameter, find_frame_compressed_size};

use crate::error::Error;
use crate::packed::node::NodeId;

/// Level of the writer; readers take any.
const LEVEL: i32 = 3;

/// The first bytes of a frame: the magic number, and a descriptor that names none of the optional fields.
const BEGIN: [u8; 5] = [0x28, 0xb5, 0x2f, 0xfd, 0];

/// A window of 1 MiB, in the upper 5 bits of the byte that follows: 2 to the power of 10 and these.
const MOST_WINDOW: u8 = 10 << 3;

/// Compresses one piece after the other.
pub(super) struct Coder {
    /// `None`: zstd gave no memory or refused a parameter, and all pieces are stored as they are.
    compressor: Option<Compressor<'static>>,
}

impl Coder {
    pub(super) fn new() -> Self {
        let set_up = || {
            let mut compressor = Compressor::new(LEVEL)?;
            compressor.set_parameter(CParameter::ContentSizeFlag(false))?;
            compressor.set_parameter(CParameter::ChecksumFlag(false))?;
            compressor.set_parameter(CParameter::DictIdFlag(false))?;
            Ok::<_, std::io::Error>(compressor)
        };
        Self {
            compressor: set_up().ok(),
        }
    }

    /// Appends the frame of a piece if it is shorter than the piece, and the piece as it is otherwise; returns the bytes added.
    pub(super) fn push(&mut self, piece: &[u8], out: &mut Vec<u8>) -> usize {
        let frame = self
            .compressor
            .as_mut()
            .and_then(|it| it.compress(piece).ok())
            .filter(|frame| frame.len() < piece.len() && check(frame).is_ok());
        let stored = frame.as_deref().unwrap_or(piece);
        out.extend_from_slice(stored);
        stored.len()
    }
}

/// One frame, without optional fields, with a window that readers accept.
fn check(frame: &[u8]) -> Result<(), String> {
    let window = match frame.split_first_chunk::<5>() {
        Some((begin, [window, ..])) if *begin == BEGIN => *window,
        _ => {
            let begin = &frame[..frame.len().min(6)];
            return Err(format!("a zstd frame begins with {begin:02x?}"));
        }
    };
    if window > MOST_WINDOW {
        return Err(format!("a zstd frame asks for window {window:#04x}"));
    }
    match find_frame_compressed_size(frame) {
        Ok(length) if length == frame.len() => Ok(()),
        Ok(length) => Err(format!("a zstd frame of {length} bytes in {}", frame.len())),
        Err(_) => Err("a zstd frame that does not end".to_owned()),
    }
}

/// Fills `out`, which is as long as the page says, from a piece: as it is if it has this length, else a frame.
///
/// # Errors
/// `Corrupt` if the piece is no frame of this length.
pub(super) fn decompress(
    id: NodeId,
    piece: usize,
    stored: &[u8],
    out: &mut [u8],
) -> Result<(), Error> {
    let corrupt = |what: String| id.corrupt(format!("piece {piece}: {what}"));
    if stored.len() == out.len() {
        out.copy_from_slice(stored);
        return Ok(());
    }
    check(stored).map_err(corrupt)?;
    let mut decompressor = Decompressor::new().map_err(|it| corrupt(it.to_string()))?;
    let length = decompressor
        .decompress_to_buffer(stored, out)
        .map_err(|it| corrupt(it.to_string()))?;
    if length == out.len() {
        return Ok(());
    }
    let wants = out.len();
    Err(corrupt(format!("{length} bytes where {wants} belong")))
}
