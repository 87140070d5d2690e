//! Values that the reader does not interpret, as JSON text: user metadata and unknown members keep every digit that they had.
//! MessagePack documents are translated to JSON text before they are read, and from it when they are written.

use std::collections::BTreeMap;
use std::fmt;
use std::io::Cursor;

use memchr::memchr2;
use serde::de::{self, Deserialize, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde::ser::{self, Serialize, SerializeMap, SerializeSeq, Serializer};
use serde_json::value::RawValue;

use crate::limits::Limits;
use crate::names::DocumentForm;

/// A JSON value as its text.
#[derive(Debug, Clone)]
pub struct JsonText(Box<RawValue>);

impl JsonText {
    /// A value from its text.
    ///
    /// # Errors
    /// The message of the parser, if the text is not JSON.
    pub fn parse(text: &str) -> Result<Self, String> {
        check_shape(text.as_bytes(), &Limits::default())?;
        let raw = serde_json::from_str::<Box<RawValue>>(text).map_err(|error| error.to_string())?;
        Ok(Self(raw))
    }

    /// The JSON text of a string.
    #[must_use]
    pub fn of_string(text: &str) -> Self {
        Self::of_value(&serde_json::Value::String(text.to_owned()))
    }

    /// The JSON text of a value.
    #[must_use]
    pub fn of_value(value: &serde_json::Value) -> Self {
        // The text of a value is JSON; `null` stands for what cannot happen.
        let raw = RawValue::from_string(value.to_string());
        Self(raw.unwrap_or_else(|_| RawValue::NULL.to_owned()))
    }

    /// The text.
    #[must_use]
    pub fn get(&self) -> &str {
        self.0.get()
    }

    /// The value of a JSON string; `None` for other values.
    #[must_use]
    pub fn as_string(&self) -> Option<String> {
        serde_json::from_str(self.get()).ok()
    }
}

impl PartialEq for JsonText {
    /// By text: `1.0` and `1.00` differ.
    fn eq(&self, other: &Self) -> bool {
        self.get() == other.get()
    }
}

impl Eq for JsonText {}

impl<'de> Deserialize<'de> for JsonText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Box::<RawValue>::deserialize(deserializer).map(Self)
    }
}

impl Serialize for JsonText {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

/// Refuses JSON text with too many levels or members, before it is parsed. Each member follows a comma or an opening bracket.
pub(crate) fn check_shape(bytes: &[u8], limits: &Limits) -> Result<(), String> {
    let (mut depth, mut entries) = (0_usize, 0_usize);
    let mut rest = bytes;
    while let Some((byte, after)) = rest.split_first() {
        rest = after;
        match byte {
            b'"' => rest = after_string(rest),
            b'{' | b'[' => {
                depth += 1;
                entries += 1;
            }
            b'}' | b']' => depth = depth.saturating_sub(1),
            b',' => entries += 1,
            _ => {}
        }
        if depth > limits.depth {
            return Err(format!("it has more than {} levels", limits.depth));
        }
        if entries > limits.entries {
            return Err(format!("it has more than {} members", limits.entries));
        }
    }
    Ok(())
}

/// What follows the end of a string, from a place within the string.
fn after_string(mut rest: &[u8]) -> &[u8] {
    while let Some(at) = memchr2(b'"', b'\\', rest) {
        let is_escape = rest.get(at) == Some(&b'\\');
        rest = rest
            .get(at + 1 + usize::from(is_escape)..)
            .unwrap_or_default();
        if !is_escape {
            return rest;
        }
    }
    &[]
}

/// The JSON text of a MessagePack document, which is one map.
pub(crate) fn json_of_message_pack(bytes: &[u8], limits: &Limits) -> Result<String, String> {
    let mut decoder = rmp_serde::Deserializer::new(Cursor::new(bytes));
    // The decoder counts one level for the document itself.
    decoder.set_max_depth(limits.depth + 2);
    let mut output = Output {
        text: String::with_capacity(bytes.len().saturating_mul(5) / 4),
        entries: 0,
        limits,
    };
    let told = |error: rmp_serde::decode::Error| error.to_string();
    Any(&mut output).deserialize(&mut decoder).map_err(told)?;
    match decoder.position() == bytes.len() as u64 {
        true => Ok(output.text),
        false => Err(format!(
            "bytes follow the document, from byte {} on",
            decoder.position()
        )),
    }
}

/// The JSON text that is being made.
struct Output<'a> {
    text: String,
    entries: usize,
    limits: &'a Limits,
}

impl Output<'_> {
    fn string<E: de::Error>(&mut self, text: &str) -> Result<(), E> {
        self.text
            .push_str(&serde_json::to_string(text).map_err(E::custom)?);
        Ok(())
    }

    fn entry<E: de::Error>(&mut self) -> Result<(), E> {
        self.entries += 1;
        let limit = self.limits.entries;
        match self.entries > limit {
            true => Err(E::custom(format!("it has more than {limit} members"))),
            false => Ok(()),
        }
    }
}

/// Reads one value of any type.
struct Any<'a, 'b>(&'a mut Output<'b>);

impl<'de> DeserializeSeed<'de> for Any<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Any<'_, '_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a value that JSON has")
    }

    fn visit_bool<E: de::Error>(self, value: bool) -> Result<(), E> {
        self.0.text.push_str(if value { "true" } else { "false" });
        Ok(())
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<(), E> {
        self.0.text.push_str(&value.to_string());
        Ok(())
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<(), E> {
        self.0.text.push_str(&value.to_string());
        Ok(())
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<(), E> {
        if !value.is_finite() {
            return Err(E::custom(format!("the number {value} is not in JSON")));
        }
        // The shortest digits that read back to the same number, with a point or an exponent.
        self.0.text.push_str(&format!("{value:?}"));
        Ok(())
    }

    fn visit_str<E: de::Error>(self, value: &str) -> Result<(), E> {
        self.0.string(value)
    }

    fn visit_unit<E: de::Error>(self) -> Result<(), E> {
        self.0.text.push_str("null");
        Ok(())
    }

    fn visit_none<E: de::Error>(self) -> Result<(), E> {
        self.visit_unit()
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        let output = self.0;
        output.text.push('[');
        let mut is_first = true;
        loop {
            let at = output.text.len();
            if !is_first {
                output.text.push(',');
            }
            if items.next_element_seed(Any(output))?.is_none() {
                output.text.truncate(at);
                break;
            }
            output.entry()?;
            is_first = false;
        }
        output.text.push(']');
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<(), A::Error> {
        let output = self.0;
        output.text.push('{');
        let mut is_first = true;
        while let Some(name) = members.next_key::<String>()? {
            output.entry()?;
            if !is_first {
                output.text.push(',');
            }
            is_first = false;
            output.string(&name)?;
            output.text.push(':');
            members.next_value_seed(Any(output))?;
        }
        output.text.push('}');
        Ok(())
    }
}

/// Serializes JSON text as the values in it, for MessagePack. Numbers keep their exact value or are an error.
pub(crate) struct Values<'a>(pub(crate) &'a RawValue);

impl<'a> Values<'a> {
    pub(crate) fn of(text: &'a JsonText) -> Self {
        Self(&text.0)
    }
}

impl Serialize for Values<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let text = self.0.get();
        let told = |error: serde_json::Error| ser::Error::custom(error);
        match text.bytes().next() {
            Some(b'{') => {
                let members: BTreeMap<String, &RawValue> =
                    serde_json::from_str(text).map_err(told)?;
                let mut map = serializer.serialize_map(Some(members.len()))?;
                for (name, value) in members {
                    map.serialize_entry(&name, &Values(value))?;
                }
                map.end()
            }
            Some(b'[') => {
                let items: Vec<&RawValue> = serde_json::from_str(text).map_err(told)?;
                let mut list = serializer.serialize_seq(Some(items.len()))?;
                for value in items {
                    list.serialize_element(&Values(value))?;
                }
                list.end()
            }
            Some(b'"') => {
                let value: String = serde_json::from_str(text).map_err(told)?;
                serializer.serialize_str(&value)
            }
            Some(b't') => serializer.serialize_bool(true),
            Some(b'f') => serializer.serialize_bool(false),
            Some(b'n') => serializer.serialize_unit(),
            _ => number(text, serializer),
        }
    }
}

/// Serializes a member of a map, in the form of its document.
pub(crate) fn text_entry<M: SerializeMap>(
    map: &mut M,
    name: &str,
    value: &JsonText,
    form: DocumentForm,
) -> Result<(), M::Error> {
    match form {
        DocumentForm::Json => map.serialize_entry(name, value),
        DocumentForm::MessagePack => map.serialize_entry(name, &Values::of(value)),
    }
}

fn number<S: Serializer>(text: &str, serializer: S) -> Result<S::Ok, S::Error> {
    if let Ok(value) = text.parse::<i64>() {
        return serializer.serialize_i64(value);
    }
    if let Ok(value) = text.parse::<u64>() {
        return serializer.serialize_u64(value);
    }
    let is_whole = !text.contains(['.', 'e', 'E']);
    match text.parse::<f64>() {
        Ok(value) if !is_whole && value.is_finite() => serializer.serialize_f64(value),
        _ => Err(ser::Error::custom(format!(
            "the number {text} has no exact form in MessagePack; keep the document as JSON"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn message_pack_and_json_keep_every_value() {
        let texts = [
            r#"{"a":[1,-2,18446744073709551615,0.1,1e300,5e-324,true,false,null,"ä\n\"",{}],"b":{"c":[]}}"#,
            r#"{}"#,
        ];
        for text in texts {
            let value = JsonText::parse(text).unwrap();
            let bytes = rmp_serde::to_vec(&Values::of(&value)).unwrap();
            assert_eq!(
                json_of_message_pack(&bytes, &Limits::default()).unwrap(),
                text
            );
        }
    }

    #[test]
    fn what_json_or_message_pack_does_not_have_is_an_error() {
        let big = JsonText::parse("[100000000000000000000]").unwrap();
        assert!(rmp_serde::to_vec(&Values::of(&big)).is_err());
        let limits = Limits::default();
        let nan = rmp_serde::to_vec(&f64::NAN).unwrap();
        assert!(json_of_message_pack(&nan, &limits).is_err());
        // bin 8 of one byte, a map with an integer as key, bytes after the document.
        for bytes in [
            &b"\xc4\x01a"[..],
            b"\x81\x01\x01",
            b"\x80\x80",
            b"\x81",
            b"",
        ] {
            assert!(json_of_message_pack(bytes, &limits).is_err(), "{bytes:?}");
        }
    }

    #[test]
    fn levels_and_members_are_limited() {
        let limits = Limits {
            depth: 3,
            entries: 10,
            ..Limits::default()
        };
        check_shape(b"[[[]]]", &limits).unwrap();
        assert!(check_shape(b"[[[[]]]]", &limits).is_err());
        check_shape(br#"["[[[[[[[[,,,,,,,,,,,,,,\""]"#, &limits).unwrap();
        assert!(check_shape(b"[1,1,1,1,1,1,1,1,1,1,1]", &limits).is_err());
        let deep = vec![0x91_u8; 100_000];
        assert!(json_of_message_pack(&deep, &Limits::default()).is_err());
        // A list that declares 2^32 - 1 items and has none.
        assert!(json_of_message_pack(b"\xdd\xff\xff\xff\xff", &Limits::default()).is_err());
    }
}
