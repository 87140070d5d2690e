//! JSON documents of versions 0 and 1 into a set.

use std::borrow::Cow;
use std::io::Read;

use crate::error::{Error, Fault, Peer, Result};
use crate::expand::{self, Limits};
use crate::json::{Json, JsonReader, Kind};
use crate::lang::{Mode, Templates};
use crate::set::ReferenceSet;
use crate::value::{BASE64, Reference, decoded};

/// How a document is read.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct DocumentOptions {
    /// The language of its URLs.
    pub mode: Mode,
    /// Templates that replace or complete those of the document.
    pub template_overrides: Vec<(String, String)>,
    /// Most references that `gen` may make; `None` for 2^24.
    pub max_references: Option<u64>,
}

/// Reads the document that `open` opens, once or twice: the second time when its version is not its first member.
///
/// # Errors
/// `Corrupt` for bytes that are not JSON, [`Error::Invalid`] for a malformed member,
/// `Limit` or [`Error::TooLarge`] for one that asks for too much work.
pub fn read_document<'a>(
    path: &str,
    mut open: impl FnMut() -> Result<Box<dyn Read + 'a>>,
    options: &DocumentOptions,
) -> Result<ReferenceSet> {
    let is_expanded = match version(&mut JsonReader::new(path, open()?))? {
        None | Some(Json::Null) => true,
        Some(Json::Bool(true)) => false,
        Some(Json::Number(text)) if text.parse::<f64>().is_ok_and(|it| it == 1.0) => false,
        Some(other) => {
            let mut shown = String::new();
            other.write(&mut shown);
            let reason = format!(
                "{shown} is unknown: 1 is expected, or no version for a document that is expanded"
            );
            return Err(Fault::value(reason).at("version", "value"));
        }
    };
    let mut reader = JsonReader::new(path, open()?);
    let mut document = Document::default();
    let mut name = String::new();
    if is_expanded {
        document.entries(&mut reader)?;
    } else {
        let mut has_member = reader.open(b'{', b'}')?;
        while has_member {
            reader.name(&mut name)?;
            match name.as_str() {
                "refs" => {
                    if reader.kind()? != Kind::Object {
                        return Err(Fault::new(Peer::Attribute, "an object is expected")
                            .at("refs", "value"));
                    }
                    document.set = ReferenceSet::new();
                    document.entries(&mut reader)?;
                }
                "templates" => document.templates = Some(reader.value(0)?),
                "gen" => document.generated = Some(reader.value(0)?),
                _ => reader.skip(0)?,
            }
            has_member = reader.more(b'}')?;
        }
    }
    reader.end()?;
    document.finish(is_expanded, options)
}

/// The member `version` of a document; reading ends there.
fn version<R: Read>(reader: &mut JsonReader<R>) -> Result<Option<Json>> {
    let mut name = String::new();
    if reader.kind()? != Kind::Object {
        let reason = "an object is expected at the top of a reference set";
        return Err(Fault::new(Peer::Attribute, reason).at("document", "value"));
    }
    let mut found = None;
    let mut has_member = reader.open(b'{', b'}')?;
    let mut is_first = true;
    while has_member {
        reader.name(&mut name)?;
        if name == "version" {
            found = Some(reader.value(0)?);
            // Writers put it first. Elsewhere a second one could follow, and the last counts.
            if is_first {
                return Ok(found);
            }
        } else {
            reader.skip(0)?;
        }
        is_first = false;
        has_member = reader.more(b'}')?;
    }
    Ok(found)
}

#[derive(Default)]
struct Document {
    set: ReferenceSet,
    templates: Option<Json>,
    generated: Option<Json>,
}

impl Document {
    /// Reads an object of keys and values.
    fn entries<R: Read>(&mut self, reader: &mut JsonReader<R>) -> Result<()> {
        let (mut key, mut part) = (String::new(), String::new());
        let mut has_member = reader.open(b'{', b'}')?;
        // Neighbouring references are often of one file.
        let mut last: (String, Option<u32>) = (String::new(), None);
        while has_member {
            reader.name(&mut key)?;
            match reader.kind()? {
                Kind::Text => {
                    reader.text(&mut part)?;
                    self.set
                        .insert(&key, &Reference::Inline(Cow::Borrowed(part.as_bytes())))?;
                }
                Kind::Object => {
                    part.clear();
                    reader.compact(&mut part, 0)?;
                    self.set
                        .insert(&key, &Reference::Inline(Cow::Borrowed(part.as_bytes())))?;
                }
                Kind::Array => self.array(reader, &key, &mut part, &mut last)?,
                Kind::Other => {
                    reader.word(&mut part)?;
                    self.set.insert(
                        &key,
                        &Reference::Malformed {
                            json: Cow::Borrowed(&part),
                        },
                    )?;
                }
            }
            has_member = reader.more(b'}')?;
        }
        Ok(())
    }

    fn array<R: Read>(
        &mut self,
        reader: &mut JsonReader<R>,
        key: &str,
        part: &mut String,
        last: &mut (String, Option<u32>),
    ) -> Result<()> {
        let mut has_item = reader.open(b'[', b']')?;
        let mut is_well = has_item && reader.kind()? == Kind::Text;
        let mut items: Vec<Json> = Vec::new();
        let mut numbers = [0_i64; 2];
        let mut count = 0;
        if is_well {
            reader.text(part)?;
            has_item = reader.more(b']')?;
            if last.1.is_none() || last.0 != *part {
                *last = (part.clone(), Some(self.set.add_url(part)?));
            }
            while has_item && is_well && count < 2 {
                if reader.kind()? != Kind::Other {
                    is_well = false;
                    break;
                }
                let number = match reader.short_integer() {
                    Some(number) => Ok(number),
                    None => {
                        let mut word = String::new();
                        reader.word(&mut word)?;
                        word.parse().map_err(|_| word)
                    }
                };
                match number {
                    Ok(number) => {
                        if let Some(slot) = numbers.get_mut(count) {
                            *slot = number;
                        }
                        count += 1;
                    }
                    Err(word) => {
                        is_well = false;
                        items.push(plain(&word));
                    }
                }
                has_item = reader.more(b']')?;
            }
            if is_well && !has_item && count != 1 {
                let range = (count == 2).then_some((numbers[0], numbers[1]));
                return self
                    .set
                    .insert_range(key, last.1.unwrap_or_default(), range);
            }
            let mut begun = vec![Json::Text(part.clone())];
            let read = numbers.iter().take(count);
            begun.extend(read.map(|it| Json::Number(it.to_string())));
            begun.append(&mut items);
            items = begun;
        }
        while has_item {
            items.push(reader.value(1)?);
            has_item = reader.more(b']')?;
        }
        if let Some(value) = of_target(&items) {
            return self.set.insert(key, &value);
        }
        part.clear();
        Json::Array(items).write(part);
        self.set.insert(
            key,
            &Reference::Malformed {
                json: Cow::Borrowed(part),
            },
        )
    }

    fn finish(mut self, is_expanded: bool, options: &DocumentOptions) -> Result<ReferenceSet> {
        if is_expanded {
            self.set.shrink();
            return Ok(self.set);
        }
        let templates = self.templates(options)?;
        for (key, bytes) in self.set.inline() {
            if bytes.starts_with(BASE64.as_bytes()) {
                decoded(bytes).map_err(|fault| fault.at(key, "value"))?;
            }
        }
        if !templates.is_empty() {
            self.check_malformed(&templates, options.mode)?;
            let mut faulty = None;
            let rendered = self
                .set
                .map_urls(|url| match templates.url(url, options.mode) {
                    Ok(rendered) => Ok(rendered),
                    Err(fault) => {
                        faulty = Some(url.to_owned());
                        Err(fault.at("refs", format!("template {url:?}")))
                    }
                });
            if let Err(error) = rendered {
                // Only the message needs the key: the search for it is left until a template has failed.
                return Err(match (error, faulty) {
                    (
                        Error::Invalid {
                            member,
                            reason,
                            peer,
                            ..
                        },
                        Some(url),
                    ) => Error::Invalid {
                        key: self.set.key_of_url(&url).unwrap_or("refs").to_owned(),
                        member,
                        reason,
                        peer,
                    },
                    (error, _) => error,
                });
            }
        }
        if let (Some(generated), Mode::Union | Mode::Full) = (self.generated.take(), options.mode) {
            let limits = Limits {
                max_references: options.max_references.unwrap_or(expand::MAX_REFERENCES),
            };
            expand::expand(&generated, &templates, limits, &mut self.set)?;
        }
        self.set.shrink();
        Ok(self.set)
    }

    fn templates(&mut self, options: &DocumentOptions) -> Result<Templates> {
        let mut templates = Templates::default();
        let at = |name: &str| format!("template {name:?}");
        match self.templates.take() {
            None | Some(Json::Null) => {}
            Some(Json::Object(members)) => {
                for (name, value) in &members {
                    let text = value.as_text().ok_or_else(|| {
                        Fault::type_of("a text is expected").at("templates", at(name))
                    })?;
                    templates
                        .insert(name, text, options.mode)
                        .map_err(|fault| fault.at("templates", at(name)))?;
                }
            }
            Some(_) => {
                let fault = Fault::new(Peer::Attribute, "an object is expected");
                return Err(fault.at("templates", "value"));
            }
        }
        for (name, text) in &options.template_overrides {
            templates
                .insert(name, text, options.mode)
                .map_err(|fault| fault.at("template_overrides", at(name)))?;
        }
        Ok(templates)
    }

    /// With templates, every value is looked at when the set is opened: what cannot be one is refused, and an array of four or
    /// more items is cut to three, as fsspec does.
    fn check_malformed(&mut self, templates: &Templates, mode: Mode) -> Result<()> {
        let numbers: Vec<usize> = self.set.malformed().collect();
        for number in numbers {
            let Some((key, Reference::Malformed { json })) = self.set.entry(number) else {
                continue;
            };
            let key = key.to_owned();
            let Json::Array(mut items) = Json::parse("value", json.as_bytes())? else {
                let reason =
                    format!("{json} is no value; a text, an object or an array is expected");
                return Err(Fault::type_of(reason).at(&key, "value"));
            };
            if items.is_empty() || items.len() == 2 {
                let reason = format!("an array has 1 or 3 items, not {}", items.len());
                return Err(Fault::new(Peer::Index, reason).at(&key, "value"));
            }
            let Some(Json::Text(url)) = items.first() else {
                return Err(Fault::type_of("the URL must be a text").at(&key, "URL"));
            };
            let rendered = templates
                .url(url, mode)
                .map_err(|fault| fault.at(&key, "URL"))?;
            let url = rendered.unwrap_or_else(|| url.clone());
            items.truncate(3);
            if let [_, Json::Number(offset), Json::Number(size)] = items.as_slice()
                && let (Ok(offset), Ok(size)) = (offset.parse(), size.parse())
            {
                let url = Some(Cow::Owned(url));
                self.set
                    .insert(&key, &Reference::Range { url, offset, size })?;
                continue;
            }
            if let Some(first) = items.first_mut() {
                *first = Json::Text(url);
            }
            let mut json = String::new();
            Json::Array(items).write(&mut json);
            self.set.insert(
                &key,
                &Reference::Malformed {
                    json: Cow::Owned(json),
                },
            )?;
        }
        if !templates.is_empty()
            && let Some(key) = self.set.has_target()
        {
            let reason = "the URL is null, which a set with templates must not have";
            return Err(Fault::type_of(reason).at(key, "URL"));
        }
        Ok(())
    }
}

fn plain(word: &str) -> Json {
    match word {
        "null" => Json::Null,
        "true" => Json::Bool(true),
        "false" => Json::Bool(false),
        number => Json::Number(number.to_owned()),
    }
}

/// `[null]` and `[null, offset, length]`: the target that the reader names.
fn of_target(items: &[Json]) -> Option<Reference<'static>> {
    match items {
        [Json::Null] => Some(Reference::File { url: None }),
        [Json::Null, Json::Number(offset), Json::Number(size)] => Some(Reference::Range {
            url: None,
            offset: offset.parse().ok()?,
            size: size.parse().ok()?,
        }),
        _ => None,
    }
}

/// What is wrong with a value.
pub(crate) struct ValueFault {
    pub(crate) fault: Fault,
    pub(crate) member: &'static str,
    /// The URL, where fsspec finds the fault only when it asks the target.
    pub(crate) url: Option<String>,
}

impl ValueFault {
    pub(crate) fn at(self, key: &str) -> Error {
        self.fault.at(key, self.member)
    }

    fn of(member: &'static str, fault: Fault) -> Self {
        Self {
            fault,
            member,
            url: None,
        }
    }
}

/// What is wrong with a malformed value, with the class that fsspec raises when it is read.
pub(crate) fn malformed_value(json: &str) -> ValueFault {
    let Ok(Json::Array(items)) = Json::parse("value", json.as_bytes()) else {
        let reason = format!("{json} is no value; a text, an object or an array is expected");
        return ValueFault::of("value", Fault::type_of(reason));
    };
    let (url, numbers) = match items.as_slice() {
        [url] => (url, None),
        [url, offset, size] => (url, Some([("offset", offset), ("length", size)])),
        other => {
            let reason = format!("an array has 1 or 3 items, not {}", other.len());
            return ValueFault::of("value", Fault::value(reason));
        }
    };
    if !matches!(url, Json::Text(_) | Json::Null) {
        let fault = Fault::new(Peer::Attribute, "the URL must be a text");
        return ValueFault::of("URL", fault);
    }
    for (member, value) in numbers.into_iter().flatten() {
        if matches!(value, Json::Number(text) if text.parse::<i64>().is_ok()) {
            continue;
        }
        let mut shown = String::new();
        value.write(&mut shown);
        let reason =
            format!("{shown} is no integer of 64 bits; numbers stand without quotes and fractions");
        return ValueFault {
            fault: Fault::type_of(reason),
            member,
            url: url
                .as_text()
                .filter(|_| *value != Json::Null)
                .map(str::to_owned),
        };
    }
    ValueFault::of("value", Fault::value(format!("{json} is no value")))
}
