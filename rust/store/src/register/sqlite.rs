//! The register in a SQLite file, for one table.
//!
//! The file holds the address of the table that it belongs to: two tables in one register, or one table reached
//! under two addresses, would take each other's versions. A connection lives as long as one call: none is
//! carried over a fork, and no lock is held in between.

use std::path::{Path, PathBuf};
use std::time::Duration;

use futures::FutureExt;
use futures::future::{BoxFuture, ready};
use rusqlite::{Connection, ErrorCode, OptionalExtension, TransactionBehavior};

use super::{ManifestRegister, RegisterEntry};
use crate::error::{Error, Result};
use crate::failpoint::hit;

/// How long a call waits for another writer: far longer than any holds the file.
const PATIENCE: Duration = Duration::from_secs(30);

/// Marks the file as ours, in its header ("plmr").
const APPLICATION_ID: i64 = 0x706c_6d72;

const TABLES: &str = "
    CREATE TABLE IF NOT EXISTS owner (id INTEGER PRIMARY KEY CHECK (id = 1), uri TEXT NOT NULL) STRICT;
    CREATE TABLE IF NOT EXISTS manifests (
        version INTEGER PRIMARY KEY, path TEXT NOT NULL, size INTEGER, committer TEXT NOT NULL) STRICT;
";

/// Rows that only show whether the file keeps its promise.
const WORDS: &str = "CREATE TABLE IF NOT EXISTS words (word TEXT PRIMARY KEY) STRICT;";

#[derive(Debug)]
pub(super) struct SqliteRegister {
    path: PathBuf,
    /// The register for people.
    uri: String,
    table_uri: String,
}

type Rusqlite<T> = rusqlite::Result<T>;

impl SqliteRegister {
    pub(super) fn new(path: &str, table_uri: &str) -> Result<Self> {
        if path.contains('\0') {
            return Err(Error::invalid(
                "storage option \"manifest_store\"",
                "it has a NUL byte",
            ));
        }
        let absolute = std::path::absolute(Path::new(path))
            .map_err(|source| Error::io(path, "make the path absolute", source))?;
        Ok(Self {
            uri: format!("sqlite:{}", absolute.display()),
            path: absolute,
            table_uri: table_uri.to_owned(),
        })
    }

    /// Full durability and a rollback journal, which needs no shared memory: it works where the table's own
    /// file system has little to offer.
    fn connect(&self) -> Rusqlite<Connection> {
        let connection = Connection::open(&self.path)?;
        connection.busy_timeout(PATIENCE)?;
        connection.execute_batch("PRAGMA journal_mode = DELETE; PRAGMA synchronous = FULL;")?;
        Ok(connection)
    }

    /// A connection to a file that exists and is this table's; `None` if nothing was written yet.
    fn existing(&self) -> Result<Option<Connection>> {
        if !self.path.exists() {
            return Ok(None);
        }
        let connection = self
            .connect()
            .map_err(|e| self.failed("open the register", &e))?;
        let id: i64 = connection
            .query_row("PRAGMA application_id", [], |row| row.get(0))
            .map_err(|e| self.failed("open the register", &e))?;
        let is_empty = id == 0 && self.tables(&connection)? == 0;
        if is_empty {
            // A writer died between making the file and filling it.
            return Ok(None);
        }
        if id != APPLICATION_ID {
            return Err(Error::invalid(
                self.uri.clone(),
                "this is a database of something else; name a file of its own for the register",
            ));
        }
        self.check_owner(&connection)?;
        Ok(Some(connection))
    }

    /// Tables and indices, but for that of `WORDS`, which belongs to nobody.
    fn tables(&self, connection: &Connection) -> Result<i64> {
        let query = "SELECT count(*) FROM sqlite_master WHERE tbl_name <> 'words'";
        connection
            .query_row(query, [], |row| row.get(0))
            .map_err(|e| self.failed("open the register", &e))
    }

    fn check_owner(&self, connection: &Connection) -> Result<()> {
        let owner: String = connection
            .query_row("SELECT uri FROM owner", [], |row| row.get(0))
            .map_err(|e| self.failed("read the register", &e))?;
        if owner == self.table_uri {
            return Ok(());
        }
        Err(Error::invalid(
            self.uri.clone(),
            format!(
                "it is the register of the table at {owner}, not of {}; each table has a file of its own, and all \
                 writers name the table alike",
                self.table_uri
            ),
        ))
    }

    /// Makes file and tables, and takes the file for this table, in one transaction.
    fn ready(&self) -> Result<Connection> {
        if let Some(connection) = self.existing()? {
            return Ok(connection);
        }
        let made = (|| {
            let mut connection = self.connect()?;
            let work = connection.transaction_with_behavior(TransactionBehavior::Exclusive)?;
            work.execute_batch(TABLES)?;
            work.pragma_update(None, "application_id", APPLICATION_ID)?;
            work.execute(
                "INSERT OR IGNORE INTO owner VALUES (1, ?1)",
                [&self.table_uri],
            )?;
            work.commit()?;
            Ok(connection)
        })();
        let connection = made.map_err(|error| self.failed("make the register", &error))?;
        // Another table may have been faster.
        self.check_owner(&connection)?;
        Ok(connection)
    }

    fn select(&self, which: &str, version: Option<i64>) -> Result<Option<RegisterEntry>> {
        let Some(connection) = self.existing()? else {
            return Ok(None);
        };
        let query = format!("SELECT version, path, size FROM manifests {which}");
        let found = connection
            .query_row(&query, rusqlite::params_from_iter(version), |row| {
                Ok((row.get(0)?, row.get(1)?, row.get(2)?))
            })
            .optional()
            .map_err(|error| self.failed("read the register", &error))?;
        let Some((version, path, size)) = found else {
            return Ok(None);
        };
        let version: i64 = version;
        let size: Option<i64> = size;
        Ok(Some(RegisterEntry {
            version: u64::try_from(version).map_err(|_| self.damaged("a negative version"))?,
            path,
            size: size
                .map(u64::try_from)
                .transpose()
                .map_err(|_| self.damaged("a negative size"))?,
        }))
    }

    fn add(&self, entry: &RegisterEntry) -> Result<()> {
        let (version, size) = self.numbers(entry)?;
        let connection = self.ready()?;
        hit("register.before_insert", &self.uri)
            .map_err(|source| Error::io(&self.uri, "add a version", source))?;
        let added = connection.execute(
            "INSERT INTO manifests VALUES (?1, ?2, ?3, 'pilum')",
            rusqlite::params![version, entry.path, size],
        );
        self.added(added, || format!("version {version}"))?;
        hit("register.after_insert", &self.uri).map_err(|source| self.unclear(source))
    }

    /// What an attempt to add a row came to.
    fn added(&self, added: Rusqlite<usize>, row: impl Fn() -> String) -> Result<()> {
        match added {
            Ok(_) => Ok(()),
            Err(rusqlite::Error::SqliteFailure(error, _))
                if error.code == ErrorCode::ConstraintViolation =>
            {
                Err(Error::AlreadyExists {
                    path: format!("{} in {}", row(), self.uri),
                })
            }
            // Out of luck before anything was written.
            Err(rusqlite::Error::SqliteFailure(error, text))
                if matches!(
                    error.code,
                    ErrorCode::DatabaseBusy
                        | ErrorCode::DatabaseLocked
                        | ErrorCode::ReadOnly
                        | ErrorCode::CannotOpen
                        | ErrorCode::PermissionDenied
                        | ErrorCode::NotADatabase
                ) =>
            {
                let error = rusqlite::Error::SqliteFailure(error, text);
                Err(self.failed("add a version to the register", &error))
            }
            Err(error) => Err(self.unclear(std::io::Error::other(error.to_string()))),
        }
    }

    /// A connection to the file as it is: nobody takes it for his table.
    fn unowned(&self) -> Result<Connection> {
        match self.existing()? {
            Some(connection) => Ok(connection),
            None => self
                .connect()
                .map_err(|error| self.failed("make the register", &error)),
        }
    }

    /// Adds a row to a table that only such rows are in.
    fn add_word(&self, word: &str) -> Result<()> {
        let mut connection = self.unowned()?;
        let added = (|| {
            let work = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            work.execute_batch(WORDS)?;
            let added = work.execute("INSERT INTO words VALUES (?1)", [word])?;
            work.commit()?;
            Ok(added)
        })();
        self.added(added, || format!("the row {word}"))
    }

    /// Removes the row, and the table with the last one.
    fn remove_word(&self, word: &str) -> Result<()> {
        let mut connection = self.unowned()?;
        let removed = (|| {
            let work = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            work.execute_batch(WORDS)?;
            work.execute("DELETE FROM words WHERE word = ?1", [word])?;
            let is_last: bool =
                work.query_row("SELECT count(*) = 0 FROM words", [], |row| row.get(0))?;
            if is_last {
                work.execute_batch("DROP TABLE words")?;
            }
            work.commit()
        })();
        removed.map_err(|error| self.failed("remove a row from the register", &error))
    }

    fn replace(&self, entry: &RegisterEntry) -> Result<()> {
        let (version, size) = self.numbers(entry)?;
        let changed = self.ready()?.execute(
            "UPDATE manifests SET path = ?2, size = ?3 WHERE version = ?1",
            rusqlite::params![version, entry.path, size],
        );
        match changed {
            Ok(0) => Err(Error::NotFound {
                path: format!("version {version} in {}", self.uri),
            }),
            Ok(_) => Ok(()),
            Err(error) => Err(self.failed("update the register", &error)),
        }
    }

    fn numbers(&self, entry: &RegisterEntry) -> Result<(i64, Option<i64>)> {
        let refused = |_| Error::invalid(self.uri.clone(), "a number beyond 63 bits");
        let version = i64::try_from(entry.version).map_err(refused)?;
        let size = entry.size.map(i64::try_from).transpose().map_err(refused)?;
        Ok((version, size))
    }

    fn unclear(&self, source: std::io::Error) -> Error {
        Error::Unclear {
            path: self.uri.clone(),
            source,
        }
    }

    fn damaged(&self, what: &str) -> Error {
        Error::Io {
            path: self.uri.clone(),
            operation: "read the register",
            source: std::io::Error::new(std::io::ErrorKind::InvalidData, what.to_owned()),
        }
    }

    fn failed(&self, operation: &'static str, error: &rusqlite::Error) -> Error {
        Error::Io {
            path: self.uri.clone(),
            operation,
            source: std::io::Error::other(error.to_string()),
        }
    }
}

impl ManifestRegister for SqliteRegister {
    fn uri(&self) -> &str {
        &self.uri
    }

    fn blocks(&self) -> bool {
        true
    }

    fn newest(&self) -> BoxFuture<'_, Result<Option<RegisterEntry>>> {
        ready(self.select("ORDER BY version DESC LIMIT 1", None)).boxed()
    }

    fn get(&self, version: u64) -> BoxFuture<'_, Result<Option<RegisterEntry>>> {
        let row = match i64::try_from(version) {
            Ok(version) => self.select("WHERE version = ?1", Some(version)),
            Err(_) => Ok(None),
        };
        ready(row).boxed()
    }

    fn insert(&self, entry: RegisterEntry) -> BoxFuture<'_, Result<()>> {
        ready(self.add(&entry)).boxed()
    }

    fn update(&self, entry: RegisterEntry) -> BoxFuture<'_, Result<()>> {
        ready(self.replace(&entry)).boxed()
    }

    fn try_row<'a>(&'a self, word: &'a str) -> BoxFuture<'a, Result<()>> {
        async move { self.add_word(word) }.boxed()
    }

    fn forget_row<'a>(&'a self, word: &'a str) -> BoxFuture<'a, Result<()>> {
        ready(self.remove_word(word)).boxed()
    }
}
