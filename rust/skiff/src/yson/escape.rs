//! Escapes of quoted strings.

/// Resolves the escapes of a quoted string as C does; an unknown escape is the character itself.
pub(super) fn unescape(content: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(content.len());
    let mut rest = content;
    while let Some((&byte, tail)) = rest.split_first() {
        if byte != b'\\' {
            out.push(byte);
            rest = tail;
            continue;
        }
        let Some((&escape, tail)) = tail.split_first() else {
            break;
        };
        rest = tail;
        match escape {
            b'n' => out.push(b'\n'),
            b't' => out.push(b'\t'),
            b'r' => out.push(b'\r'),
            b'a' => out.push(7),
            b'b' => out.push(8),
            b'f' => out.push(12),
            b'v' => out.push(11),
            b'x' => match digits(tail, 2, 16) {
                (0, _) => out.push(b'x'),
                (length, value) => {
                    out.extend_from_slice(&value.to_le_bytes()[..1]);
                    rest = tail.get(length..).unwrap_or_default();
                }
            },
            b'u' | b'U' => {
                let length = if escape == b'u' { 4 } else { 8 };
                match digits(tail, length, 16) {
                    (found, value) if found == length => {
                        rest = tail.get(length..).unwrap_or_default();
                        let second = (escape == b'u').then(|| second_half(value, rest)).flatten();
                        let value = match second {
                            None => value,
                            Some(second) => {
                                rest = rest.get(6..).unwrap_or_default();
                                match second.checked_sub(0xdc00) {
                                    Some(low) if low < 0x400 => {
                                        0x10000 + ((value - 0xd800) << 10) + low
                                    }
                                    // The client replaces both by one U+FFFD.
                                    _ => 0xfffd,
                                }
                            }
                        };
                        push_code_point(&mut out, value);
                    }
                    _ => out.push(escape),
                }
            }
            b'0'..=b'7' => {
                let most = if escape < b'4' { 3 } else { 2 };
                let from = content.len() - tail.len() - 1;
                let (length, value) = digits(content.get(from..).unwrap_or_default(), most, 8);
                out.extend_from_slice(&value.to_le_bytes()[..1]);
                rest = tail.get(length - 1..).unwrap_or_default();
            }
            other => out.push(other),
        }
    }
    out
}

/// The number of the `\uXXXX` behind the high half of a surrogate pair.
fn second_half(high: u32, rest: &[u8]) -> Option<u32> {
    if !(0xd800..0xdc00).contains(&high) {
        return None;
    }
    match digits(rest.strip_prefix(b"\\u")?, 4, 16) {
        (4, second) => Some(second),
        _ => None,
    }
}

/// How many of the first `most` bytes are digits of the radix, and their number.
fn digits(bytes: &[u8], most: usize, radix: u32) -> (usize, u32) {
    let digit = |byte: &u8| char::from(*byte).to_digit(radix);
    let digits = bytes.iter().take(most).map_while(digit);
    digits.fold((0, 0), |(length, value), digit| {
        (length + 1, value.wrapping_mul(radix) | digit)
    })
}

/// UTF-8 of a code point. A lone surrogate and a number beyond Unicode get the bytes that the client writes for them: the form
/// that their number would have, cut to 21 bits.
fn push_code_point(out: &mut Vec<u8>, value: u32) {
    if let Some(char) = char::from_u32(value) {
        out.extend_from_slice(char.encode_utf8(&mut [0; 4]).as_bytes());
        return;
    }
    let six = |shift: u32| 0x80 | (value >> shift & 0x3f).to_le_bytes()[0];
    if value < 0x10000 {
        out.extend_from_slice(&[0xe0 | (value >> 12).to_le_bytes()[0], six(6), six(0)]);
    } else {
        let first = 0xf0 | (value >> 18 & 7).to_le_bytes()[0];
        out.extend_from_slice(&[first, six(12), six(6), six(0)]);
    }
}
