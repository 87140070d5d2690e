//! Constants at the end of every data file (`docs/format.md`, sections 2 and 6).

/// Last four bytes of every data file.
pub(crate) const MAGIC: &[u8; 4] = b"LANC";
/// Bytes of the footer: u64 position, u16 major, u16 minor, magic.
pub(crate) const FOOTER_LEN: usize = 16;
/// Version numbers in the footer of v1 files: major and minor.
pub(crate) const FOOTER_VERSION: (u16, u16) = (0, 2);
/// Version of the extension block.
pub(crate) const EXTENSION_VERSION: u32 = 1;
/// Bytes of an entry of the column directory.
pub(crate) const DIRECTORY_ENTRY: usize = 16;
/// Bytes of a pair of position and length in a page table.
pub(crate) const PAGE_TABLE_PAIR: u64 = 16;
