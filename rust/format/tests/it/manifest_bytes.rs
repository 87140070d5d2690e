//! Damaging the bytes of a manifest file where their structure is known, and making its checksums right again.

use std::ops::Range;

use pilum_format::{RawFields, crc32c};
use pilum_testing::{Random, damage_message, mutate};

use crate::forge::behind_length;

const FOOTER: usize = 16;

/// Where the message of a manifest file lies.
fn message_of(bytes: &[u8]) -> Option<Range<usize>> {
    let footer = bytes.len().checked_sub(FOOTER)?;
    let position = u64::from_le_bytes(bytes[footer..footer + 8].try_into().ok()?);
    let start = usize::try_from(position).ok()?.checked_add(4)?;
    (start <= footer).then_some(start..footer)
}

fn with_message(bytes: &[u8], old: &Range<usize>, message: &[u8]) -> Vec<u8> {
    let footer = &bytes[bytes.len() - FOOTER..];
    [&bytes[..old.start - 4], &behind_length(message), footer].concat()
}

pub(crate) fn damage_manifest(bytes: &mut Vec<u8>, random: &mut Random) {
    let Some(message) = message_of(bytes) else {
        return;
    };
    // Dictionaries and sections lie before the message.
    if random.one_in(4) && message.start > 4 {
        let mut before = bytes[..message.start - 4].to_vec();
        mutate(&mut before, random);
        before.resize(message.start - 4, 0);
        bytes[..message.start - 4].copy_from_slice(&before);
        return;
    }
    let damaged = damage_message(&bytes[message.clone()], random);
    *bytes = with_message(bytes, &message, &damaged);
}

fn varint(bytes: &[u8]) -> u64 {
    let digits = bytes.iter().take(10).rev();
    digits.fold(0, |sum, byte| sum << 7 | u64::from(byte & 0x7f))
}

fn of_number(message: &[u8], number: u64) -> Option<Range<usize>> {
    let fields = RawFields::new(message).flatten();
    fields
        .filter(|it| it.number == number)
        .last()
        .map(|it| it.value)
}

/// The bytes of a section with its length, at the position that a field of the message says.
fn section<'a>(bytes: &'a [u8], message: &[u8], number: u64) -> Option<&'a [u8]> {
    let start = usize::try_from(varint(&message[of_number(message, number)?])).ok()?;
    let len = u32::from_le_bytes(bytes.get(start..start.checked_add(4)?)?.try_into().ok()?);
    bytes.get(start..start.checked_add(4)?.checked_add(len as usize)?)
}

pub(crate) fn seal_manifest(bytes: &mut [u8]) {
    let Some(at) = message_of(bytes) else {
        return;
    };
    let mut message = bytes[at.clone()].to_vec();
    if let Some(extension) = of_number(&message, 1001) {
        let inner = message[extension.clone()].to_vec();
        let len = of_number(&inner, 1).map_or(0, |it| varint(&inner[it]));
        let dictionaries = usize::try_from(len).ok().and_then(|len| bytes.get(..len));
        let transaction = section(bytes, &message, 23).or(section(bytes, &message, 21));
        let index = section(bytes, &message, 6);
        for (number, covered) in [(2, dictionaries), (3, transaction), (4, index)] {
            if let (Some(place), Some(covered)) = (of_number(&inner, number), covered)
                && place.len() == 4
            {
                let place = extension.start + place.start..extension.start + place.end;
                message[place].copy_from_slice(&crc32c(covered).to_le_bytes());
            }
        }
    }
    if let Some(place) = of_number(&message, 1000).filter(|it| it.len() == 4) {
        message[place.clone()].fill(0);
        let crc = crc32c(&message);
        message[place].copy_from_slice(&crc.to_le_bytes());
    }
    bytes[at].copy_from_slice(&message);
}
