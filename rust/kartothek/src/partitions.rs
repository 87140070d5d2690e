//! The partitions of a metadata document: the files of each by table. A document has very many, so the names of tables, which
//! repeat, are kept once.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde::de::{Deserialize, DeserializeSeed, Deserializer, Error as _, MapAccess, Visitor};
use serde::ser::{Serialize, SerializeMap, Serializer};

use crate::json_text::{JsonText, text_entry};
use crate::names::DocumentForm;

/// A partition: one file for each table.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Partition {
    /// Keys of data files by table.
    pub files: Files,
    /// Members that this version of the format does not have.
    pub others: BTreeMap<String, JsonText>,
}

/// Keys of data files by table, sorted by the name of the table. A dataset has few tables, most often one, so a short sorted list
/// needs less memory than a map.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Files(Vec<(Arc<str>, String)>);

impl Files {
    /// The key of the file of a table.
    #[must_use]
    pub fn get(&self, table: &str) -> Option<&String> {
        let place = self.place(table).ok()?;
        self.0.get(place).map(|(_, key)| key)
    }

    /// Adds the file of a table, or replaces it.
    pub fn insert(&mut self, table: impl Into<Arc<str>>, key: String) {
        let table = table.into();
        match self.place(&table) {
            Ok(place) => self.0[place].1 = key,
            Err(place) => self.0.insert(place, (table, key)),
        }
    }

    fn place(&self, table: &str) -> Result<usize, usize> {
        self.0
            .binary_search_by(|(known, _)| known.as_ref().cmp(table))
    }

    /// The tables.
    pub fn tables(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(table, _)| table.as_ref())
    }

    /// The keys of the files.
    pub fn values(&self) -> impl Iterator<Item = &String> {
        self.0.iter().map(|(_, key)| key)
    }

    /// The keys of the files, to change them.
    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut String> {
        self.0.iter_mut().map(|(_, key)| key)
    }

    /// The tables and the keys of their files.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &String)> {
        self.0.iter().map(|(table, key)| (table.as_ref(), key))
    }
}

impl FromIterator<(String, String)> for Files {
    fn from_iter<I: IntoIterator<Item = (String, String)>>(files: I) -> Self {
        let mut found = Self::default();
        for (table, key) in files {
            found.insert(table, key);
        }
        found
    }
}

/// Reads all partitions of a document.
pub(crate) struct AllPartitions(pub(crate) BTreeMap<String, Partition>);

impl<'de> Deserialize<'de> for AllPartitions {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members;
        impl<'de> Visitor<'de> for Members {
            type Value = AllPartitions;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a map, the partitions")
            }

            fn visit_map<A: MapAccess<'de>>(
                self,
                mut members: A,
            ) -> Result<AllPartitions, A::Error> {
                let mut table = None;
                let mut found = Vec::new();
                while let Some(label) = members.next_key::<String>()? {
                    found.push((label, members.next_value_seed(OnePartition(&mut table))?));
                }
                // Sorted at once: mostly they are in order. Of a label that is there twice the last one counts.
                Ok(AllPartitions(found.into_iter().collect()))
            }
        }
        deserializer.deserialize_map(Members)
    }
}

/// Reads one partition; the name of the last table is used again.
struct OnePartition<'a>(&'a mut Option<Arc<str>>);

impl<'de> DeserializeSeed<'de> for OnePartition<'_> {
    type Value = Partition;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Partition, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for OnePartition<'_> {
    type Value = Partition;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a map, a partition")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Partition, A::Error> {
        let mut found = Partition::default();
        while let Some(name) = members.next_key_seed(Member)? {
            match name {
                None => found.files = members.next_value_seed(AllFiles(&mut *self.0))?,
                Some(name) => {
                    let value = members.next_value()?;
                    found.others.insert(name, value);
                }
            }
        }
        Ok(found)
    }
}

/// Reads the name of a member of a partition. Returns `None` for the member `files`, which every partition has.
struct Member;

impl<'de> DeserializeSeed<'de> for Member {
    type Value = Option<String>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for Member {
    type Value = Option<String>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a string, the name of a member")
    }

    fn visit_str<E: serde::de::Error>(self, name: &str) -> Result<Self::Value, E> {
        Ok((name != "files").then(|| name.to_owned()))
    }
}

/// Reads the files of a partition.
struct AllFiles<'a>(&'a mut Option<Arc<str>>);

impl<'de> DeserializeSeed<'de> for AllFiles<'_> {
    type Value = Files;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Files, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for AllFiles<'_> {
    type Value = Files;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a map, the files of a partition")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Files, A::Error> {
        let mut found = Files(Vec::with_capacity(1));
        while members.next_key_seed(TableName(&mut *self.0))?.is_some() {
            let key = members.next_value::<String>()?;
            let table = self
                .0
                .as_ref()
                .ok_or_else(|| A::Error::custom("no table"))?;
            found.insert(Arc::clone(table), key);
        }
        Ok(found)
    }
}

/// Reads the name of a table, and leaves it where the name before was.
struct TableName<'a>(&'a mut Option<Arc<str>>);

impl<'de> DeserializeSeed<'de> for TableName<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for TableName<'_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a string, the name of a table")
    }

    fn visit_str<E: serde::de::Error>(self, table: &str) -> Result<(), E> {
        if self.0.as_deref() != Some(table) {
            *self.0 = Some(Arc::from(table));
        }
        Ok(())
    }
}

/// Partitions in one of the forms of a document.
pub(crate) struct Written<'a>(
    pub(crate) &'a BTreeMap<String, Partition>,
    pub(crate) DocumentForm,
);

impl Serialize for Written<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (label, partition) in self.0 {
            map.serialize_entry(label, &WrittenPartition(partition, self.1))?;
        }
        map.end()
    }
}

struct WrittenPartition<'a>(&'a Partition, DocumentForm);

impl Serialize for WrittenPartition<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Partition { files, others } = self.0;
        let mut map = serializer.serialize_map(Some(1 + others.len()))?;
        map.serialize_entry("files", files)?;
        for (name, value) in others {
            text_entry(&mut map, name, value, self.1)?;
        }
        map.end()
    }
}

impl Serialize for Files {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (table, key) in self.iter() {
            map.serialize_entry(table, key)?;
        }
        map.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partitions_are_read_with_all_tables_and_members() {
        let text = r#"{"b":{"files":{"t2":"k2","t1":"k1","t2":"k3"},"n":[1.50]},"a":{"x":null},"b2":{"files":{"t1":"k4"}}}"#;
        let AllPartitions(read) = serde_json::from_str(text).unwrap();
        assert_eq!(read.keys().collect::<Vec<_>>(), ["a", "b", "b2"]);
        let files: Vec<_> = read["b"].files.iter().collect();
        assert_eq!(files, [("t1", &"k1".to_owned()), ("t2", &"k3".to_owned())]);
        assert_eq!(read["b"].files.get("t2").unwrap(), "k3");
        assert_eq!(read["b"].files.get("t3"), None);
        assert_eq!(read["b"].others["n"].get(), "[1.50]");
        assert_eq!(read["a"].files, Files::default());
        let written = serde_json::to_string(&Written(&read, DocumentForm::Json)).unwrap();
        let AllPartitions(again) = serde_json::from_str(&written).unwrap();
        assert_eq!(again, read);
        for bad in [
            r#"{"a":1}"#,
            r#"{"a":{"files":{"t":1}}}"#,
            r#"{"a":{"files":[]}}"#,
            "[]",
        ] {
            assert!(serde_json::from_str::<AllPartitions>(bad).is_err(), "{bad}");
        }
    }
}
