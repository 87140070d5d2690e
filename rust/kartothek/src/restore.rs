//! Earlier states of a dataset: listed, opened and made the newest again.

use std::collections::BTreeMap;

use arrow_schema::SchemaRef;
use chrono::{DateTime, Utc};
use futures::FutureExt;
use futures::future::BoxFuture;

use crate::commit::{Change, Next};
use crate::error::{Error, Result};
use crate::history::{Bookkeeping, Version, archived, read_archived};
use crate::metadata::{DatasetMetadata, IndexReference};
use crate::names::stored_key;
use crate::state::{Place, State, load, schema_of, tables_of};

/// The states of a dataset that can be opened, oldest first. The last one is the newest.
pub(crate) async fn versions(place: &Place) -> Result<Vec<Version>> {
    let mut found = archived(&place.store, &place.uuid).await?;
    let Some(state) = load(place).await? else {
        return Err(Error::NotFound {
            path: place.shown(),
            reason: "there is no such dataset".to_owned(),
        });
    };
    let current = state.current_version(place).await?;
    let version = match current {
        Some(version) => version,
        None => {
            let last = found.last().map_or(0, |it| it.version);
            Version::named(
                &place.uuid,
                last.saturating_add(1),
                state.modified(place).await?,
                "foreign",
            )
        }
    };
    if !found.iter().any(|it| it.key == version.key) {
        found.push(version);
    }
    Ok(found)
}

/// The document of a version, and the schema of each of its tables.
pub(crate) async fn open_version(
    place: &Place,
    number: u64,
) -> Result<(DatasetMetadata, BTreeMap<String, SchemaRef>)> {
    let all = versions(place).await?;
    let version = all.iter().rfind(|it| it.version == number);
    let Some(version) = version else {
        let numbers: Vec<String> = all.iter().map(|it| it.version.to_string()).collect();
        return Err(Error::NotFound {
            path: place.shown(),
            reason: format!(
                "there is no version {number}; those that are kept are {}",
                numbers.join(", ")
            ),
        });
    };
    let read = read_archived(&place.store, version, &place.limits).await;
    let document = match read {
        Ok((bytes, form)) => {
            let path = format!("{}/{}", place.store.uri(), version.key);
            DatasetMetadata::parse(&bytes, form, &path, &place.uuid, &place.limits)?
        }
        // The newest version, if its archive is still to be written.
        Err(Error::Store(pilum_store::Error::NotFound { path })) => match load(place).await? {
            Some(state) => DatasetMetadata::clone(&state.document),
            None => {
                return Err(Error::NotFound {
                    path,
                    reason: "the version was removed while it was opened".to_owned(),
                });
            }
        },
        Err(error) => return Err(error),
    };
    let book = Bookkeeping::of(&document);
    let mut schemas = BTreeMap::new();
    for table in tables_of(place, &document).await? {
        let expected = book.as_ref().and_then(|it| it.schemas.get(&table));
        let found = schema_of(place, &table, expected.map(String::as_str)).await?;
        schemas.insert(table, SchemaRef::clone(found.schema.schema()));
    }
    Ok((document, schemas))
}

/// The newest version that is not after a time.
pub(crate) async fn version_at(place: &Place, time: DateTime<Utc>) -> Result<Version> {
    let all = versions(place).await?;
    let found = all
        .iter()
        .filter(|it| it.time <= time)
        .max_by_key(|it| (it.time, it.version));
    found.cloned().ok_or_else(|| Error::NotFound {
        path: place.shown(),
        reason: match all.first() {
            Some(first) => format!(
                "no version is as old as {}; the oldest that is kept, {}, is of {}",
                time.to_rfc3339(),
                first.version,
                first.time.to_rfc3339()
            ),
            None => "no version is kept".to_owned(),
        },
    })
}

/// Makes an earlier state the newest.
#[derive(Debug)]
pub(crate) struct Restore(pub(crate) u64);

impl Restore {
    async fn next(&self, place: &Place, state: Option<&State>) -> Result<Next> {
        let (document, schemas) = open_version(place, self.0).await?;
        let listed = place.store.list_recursive(&place.uuid).await?;
        let there: std::collections::HashSet<&str> =
            listed.iter().map(|it| it.path.as_str()).collect();
        let files = document
            .partitions
            .iter()
            .flat_map(|it| it.values().flat_map(|it| it.files.values()));
        let indices = document.indices.values().filter_map(|it| match it {
            IndexReference::File(key) => Some(key),
            IndexReference::Embedded(_) => None,
        });
        if let Some(missing) = files
            .chain(indices)
            .find(|it| !there.contains(&*stored_key(&place.store, it)))
        {
            return Err(Error::NotFound {
                path: format!("{}/{missing}", place.store.uri()),
                reason: format!(
                    "version {} cannot be restored, because garbage collection removed this file of it",
                    self.0
                ),
            });
        }
        let is_compatible = state.is_some_and(|state| {
            schemas.iter().all(|(table, schema)| {
                state
                    .schemas
                    .get(table)
                    .is_some_and(|known| known.schema.schema() == schema)
            })
        });
        Ok(Next {
            document,
            schemas,
            is_compatible,
            new_files: Vec::new(),
        })
    }
}

impl Change for Restore {
    fn operation(&self) -> &'static str {
        "restore"
    }

    fn apply<'a>(
        &'a mut self,
        place: &'a Place,
        state: Option<&'a State>,
    ) -> BoxFuture<'a, Result<Next>> {
        self.next(place, state).boxed()
    }
}
