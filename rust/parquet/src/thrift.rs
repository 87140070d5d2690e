//! The Thrift compact protocol, as far as it is needed before the decoder of the `parquet` crate reads a structure: page
//! headers, the depth of a schema, and a check that no declared length exceeds the bytes.

/// A fault in the bytes of a structure.
pub(crate) type Fault = &'static str;

const ENDS_EARLY: Fault = "a structure ends early";
/// Structures of Parquet nest less deeply than this, and a recursive decoder does not overflow its stack at this depth.
const MAX_DEPTH: usize = 32;

const BOOL_TRUE: u8 = 1;
const BOOL_FALSE: u8 = 2;
const BYTE: u8 = 3;
const I16: u8 = 4;
const I32: u8 = 5;
const I64: u8 = 6;
const DOUBLE: u8 = 7;
const BINARY: u8 = 8;
const LIST: u8 = 9;
const SET: u8 = 10;
const MAP: u8 = 11;
const STRUCT: u8 = 12;

/// Reads values from the front of some bytes.
struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    fn left(&self) -> usize {
        self.bytes.len() - self.at
    }

    fn byte(&mut self) -> Result<u8, Fault> {
        let byte = *self.bytes.get(self.at).ok_or(ENDS_EARLY)?;
        self.at += 1;
        Ok(byte)
    }

    fn skip(&mut self, count: usize) -> Result<(), Fault> {
        if count > self.left() {
            return Err("a length exceeds the bytes");
        }
        self.at += count;
        Ok(())
    }

    fn varint(&mut self) -> Result<u64, Fault> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err("a number has too many bytes")
    }

    fn signed(&mut self) -> Result<i64, Fault> {
        let value = self.varint()?;
        Ok((value >> 1).cast_signed() ^ -(value & 1).cast_signed())
    }

    fn i32(&mut self) -> Result<i32, Fault> {
        i32::try_from(self.signed()?).map_err(|_| "a number exceeds 32 bits")
    }

    /// A size, which cannot be negative.
    fn size(&mut self) -> Result<u32, Fault> {
        u32::try_from(self.i32()?).map_err(|_| "a size is negative")
    }

    /// Type and id of the next field, or none at the end of the structure.
    fn field(&mut self, last: &mut i64) -> Result<Option<(u8, i64)>, Fault> {
        let byte = self.byte()?;
        let kind = byte & 0x0f;
        if kind == 0 {
            return Ok(None);
        }
        *last = match byte >> 4 {
            0 => self.signed()?,
            delta => last.saturating_add(i64::from(delta)),
        };
        Ok(Some((kind, *last)))
    }

    /// Type and number of the elements of a list, which cannot be more than the bytes that are left.
    fn list(&mut self) -> Result<(u8, usize), Fault> {
        let byte = self.byte()?;
        let count = match byte >> 4 {
            15 => usize::try_from(self.varint()?).map_err(|_| ENDS_EARLY)?,
            count => usize::from(count),
        };
        if count > self.left() {
            return Err("a list has more elements than bytes");
        }
        Ok((byte & 0x0f, count))
    }

    /// Skips a value, and checks the lengths in it.
    fn value(&mut self, kind: u8, depth: usize) -> Result<(), Fault> {
        if depth > MAX_DEPTH {
            return Err("structures are nested too deep");
        }
        match kind {
            BOOL_TRUE | BOOL_FALSE => Ok(()),
            BYTE => self.skip(1),
            I16 | I32 | I64 => self.varint().map(|_| ()),
            DOUBLE => self.skip(8),
            BINARY => {
                let len = usize::try_from(self.varint()?).map_err(|_| ENDS_EARLY)?;
                self.skip(len)
            }
            LIST | SET => {
                let (kind, count) = self.list()?;
                for _ in 0..count {
                    self.element(kind, depth + 1)?;
                }
                Ok(())
            }
            MAP => {
                let count = usize::try_from(self.varint()?).map_err(|_| ENDS_EARLY)?;
                if count == 0 {
                    return Ok(());
                }
                let kinds = self.byte()?;
                if count > self.left() {
                    return Err("a map has more entries than bytes");
                }
                for _ in 0..count {
                    self.element(kinds >> 4, depth + 1)?;
                    self.element(kinds & 0x0f, depth + 1)?;
                }
                Ok(())
            }
            STRUCT => {
                let mut last = 0;
                while let Some((kind, _)) = self.field(&mut last)? {
                    self.value(kind, depth + 1)?;
                }
                Ok(())
            }
            _ => Err("a value has an unknown type"),
        }
    }

    /// A value in a list or a map, where truth values have a byte of their own.
    fn element(&mut self, kind: u8, depth: usize) -> Result<(), Fault> {
        match kind {
            BOOL_TRUE | BOOL_FALSE => self.skip(1),
            kind => self.value(kind, depth),
        }
    }
}

/// Checks that the bytes begin with a structure in which no length exceeds the bytes and which does not nest too deep.
pub(crate) fn check(bytes: &[u8]) -> Result<(), Fault> {
    Reader::new(bytes).value(STRUCT, 0)
}

/// The levels of the schema in a footer: its second field, a list of elements in depth-first order that count their children.
pub(crate) fn schema_depth(footer: &[u8]) -> Result<usize, Fault> {
    let mut reader = Reader::new(footer);
    let mut last = 0;
    while let Some((kind, id)) = reader.field(&mut last)? {
        if id != 2 || kind != LIST {
            reader.value(kind, 0)?;
            continue;
        }
        let (kind, count) = reader.list()?;
        if kind != STRUCT {
            return Err("the schema is no list of structures");
        }
        // How many children are still to come at each level.
        let mut open: Vec<u32> = Vec::new();
        let mut deepest = 0;
        for _ in 0..count {
            let children = children_of(&mut reader)?;
            if children > 0 {
                open.push(children);
                deepest = deepest.max(open.len());
                continue;
            }
            while let Some(left) = open.last_mut() {
                *left -= 1;
                if *left > 0 {
                    break;
                }
                open.pop();
            }
        }
        return Ok(deepest);
    }
    Err("the footer has no schema")
}

fn children_of(reader: &mut Reader<'_>) -> Result<u32, Fault> {
    let (mut last, mut children) = (0, 0);
    while let Some((kind, id)) = reader.field(&mut last)? {
        if id == 5 && kind == I32 {
            children = reader.size()?;
        } else {
            reader.value(kind, 0)?;
        }
    }
    Ok(children)
}

/// What a page holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PageKind {
    Data,
    Index,
    Dictionary,
    DataV2,
}

/// The header in front of a page.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PageHeader {
    pub(crate) kind: PageKind,
    /// Bytes of the page after decompression.
    pub(crate) uncompressed: u32,
    /// Bytes of the page in the file, without the header.
    pub(crate) compressed: u32,
    /// CRC-32 of the bytes in the file.
    pub(crate) crc: Option<u32>,
    pub(crate) num_values: u32,
    /// Rows; only pages of version 2 record them.
    pub(crate) num_rows: Option<u32>,
    /// The number of the encoding in the format.
    pub(crate) encoding: i32,
    /// Bytes of the header itself.
    pub(crate) len: usize,
    /// Where the CRC belongs: behind the compressed size.
    pub(crate) crc_at: usize,
}

impl PageHeader {
    /// Bytes of header and page in the file.
    pub(crate) fn total(&self) -> u64 {
        self.len as u64 + u64::from(self.compressed)
    }

    pub(crate) fn is_data(&self) -> bool {
        matches!(self.kind, PageKind::Data | PageKind::DataV2)
    }

    /// Reads the header at the front of `bytes`.
    pub(crate) fn read(bytes: &[u8]) -> Result<Self, Fault> {
        let mut reader = Reader::new(bytes);
        let (mut kind, mut uncompressed, mut compressed, mut crc) = (None, None, None, None);
        let (mut num_values, mut num_rows, mut encoding) = (0, None, -1);
        let (mut last, mut crc_at) = (0, 0);
        while let Some((wire, id)) = reader.field(&mut last)? {
            match (id, wire) {
                (1, I32) => {
                    kind = Some(match reader.i32()? {
                        0 => PageKind::Data,
                        1 => PageKind::Index,
                        2 => PageKind::Dictionary,
                        3 => PageKind::DataV2,
                        _ => return Err("a page has an unknown type"),
                    });
                }
                (2, I32) => uncompressed = Some(reader.size()?),
                (3, I32) => {
                    compressed = Some(reader.size()?);
                    crc_at = reader.at;
                }
                (4, I32) => crc = Some(reader.i32()?.cast_unsigned()),
                (5 | 7 | 8, STRUCT) => {
                    let mut inner = 0;
                    while let Some((wire, field)) = reader.field(&mut inner)? {
                        match (id, field, wire) {
                            (_, 1, I32) => num_values = reader.size()?,
                            (5 | 7, 2, I32) | (8, 4, I32) => encoding = reader.i32()?,
                            (8, 3, I32) => num_rows = Some(reader.size()?),
                            _ => reader.value(wire, 1)?,
                        }
                    }
                }
                _ => reader.value(wire, 0)?,
            }
        }
        Ok(Self {
            kind: kind.ok_or("a page has no type")?,
            uncompressed: uncompressed.ok_or("a page has no size")?,
            compressed: compressed.ok_or("a page has no compressed size")?,
            crc,
            num_values,
            num_rows,
            encoding,
            len: reader.at,
            crc_at,
        })
    }
}

/// A page header with a CRC added; `header` is one that has none.
pub(crate) fn with_crc(header: &[u8], crc: u32) -> Result<Vec<u8>, Fault> {
    let read = PageHeader::read(header)?;
    let (before, after) = header.split_at_checked(read.crc_at).ok_or(ENDS_EARLY)?;
    let (next, rest) = after.split_first().ok_or(ENDS_EARLY)?;
    if read.crc.is_some() || read.crc_at == 0 {
        return Err("the header has a checksum already");
    }
    // The id of the field that follows is written as its distance from field 3, and is now one less.
    let next = match next >> 4 {
        0 => *next,
        _ => next - 0x10,
    };
    let mut out = Vec::with_capacity(header.len() + 6);
    out.extend_from_slice(before);
    out.push(0x10 | I32);
    let value = crc.cast_signed();
    let mut zigzag = ((value << 1) ^ (value >> 31)).cast_unsigned();
    while zigzag >= 0x80 {
        out.push((zigzag & 0x7f) as u8 | 0x80);
        zigzag >>= 7;
    }
    out.push((zigzag & 0x7f) as u8);
    out.push(next);
    out.extend_from_slice(rest);
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A data page header of version 1: type 0, 300 and 200 bytes, 100 values, plain, RLE, RLE.
    const HEADER: [u8; 20] = [
        0x15, 0x00, 0x15, 0xd8, 0x04, 0x15, 0x90, 0x03, 0x2c, 0x15, 0xc8, 0x01, 0x15, 0x00, 0x15,
        0x06, 0x15, 0x06, 0x00, 0x00,
    ];

    #[test]
    fn a_page_header_is_read() {
        let header = PageHeader::read(&HEADER).unwrap();
        assert_eq!(
            (
                header.kind,
                header.uncompressed,
                header.compressed,
                header.num_values,
                header.len
            ),
            (PageKind::Data, 300, 200, 100, 20)
        );
    }

    #[test]
    fn an_added_checksum_is_read_back_and_changes_nothing_else() {
        for crc in [0, 1, 63, 64, 0x7fff_ffff, 0x8000_0000, u32::MAX] {
            let with = with_crc(&HEADER, crc).unwrap();
            let header = PageHeader::read(&with).unwrap();
            assert_eq!(
                (header.crc, header.num_values, header.encoding, header.len),
                (Some(crc), 100, 0, with.len())
            );
            assert!(with_crc(&with, crc).is_err());
        }
    }

    #[test]
    fn damaged_headers_are_errors() {
        for cut in 0..HEADER.len() {
            assert!(PageHeader::read(&HEADER[..cut]).is_err());
            assert!(check(&HEADER[..cut]).is_err());
        }
        check(&HEADER).unwrap();
        assert!(check(&[0x19, 0xfc, 0xff, 0xff, 0xff, 0x0f]).is_err());
        assert!(check(&[0x1c; 100]).is_err());
    }
}
