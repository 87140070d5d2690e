//! The register of one table in a SQLite file.
//!
//! The file contains the address of its table: two tables with one register, or one table with two addresses, would take each
//! other's versions. A connection lives as long as one call, so that none is copied by a fork and no lock is held between
//! calls.

use std::path::{Path, PathBuf};
use std::time::Duration;

use futures::FutureExt;
use futures::future::{BoxFuture, ready};
use rusqlite::{Connection, ErrorCode, OptionalExtension, TransactionBehavior};

use super::rows::{ManifestRegister, RegisterEntry};
use crate::error::{Error, Result};
use crate::failpoint::hit;

/// How long a call waits for another writer, which holds the file for far less.
const MAX_WAIT: Duration = Duration::from_secs(30);

/// The application id in the header of the file ("plmr").
const APPLICATION_ID: i64 = 0x706c_6d72;

const TABLES: &str = "
    CREATE TABLE IF NOT EXISTS owner (id INTEGER PRIMARY KEY CHECK (id = 1), uri TEXT NOT NULL) STRICT;
    CREATE TABLE IF NOT EXISTS manifests (
        version INTEGER PRIMARY KEY, path TEXT NOT NULL, size INTEGER, committer TEXT NOT NULL) STRICT;
";

/// The rows of [`ManifestRegister::try_row`].
const WORDS: &str = "CREATE TABLE IF NOT EXISTS words (word TEXT PRIMARY KEY) STRICT;";

#[derive(Debug)]
pub(super) struct SqliteRegister {
    path: PathBuf,
    /// The address of the register in messages.
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

    /// Full durability and a rollback journal. The journal needs no shared memory, so it works on file systems that lack
    /// it.
    fn connect(&self) -> Rusqlite<Connection> {
        let connection = Connection::open(&self.path)?;
        connection.busy_timeout(MAX_WAIT)?;
        connection.execute_batch("PRAGMA journal_mode = DELETE; PRAGMA synchronous = FULL;")?;
        Ok(connection)
    }

    /// A connection to a file that exists and belongs to this table; `None` if it was not written yet.
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
            // A writer ended between creating the file and writing its tables.
            return Ok(None);
        }
        if id != APPLICATION_ID {
            return Err(Error::invalid(
                self.uri.clone(),
                "this SQLite file is no register; name a file of its own for the register",
            ));
        }
        self.check_owner(&connection)?;
        Ok(Some(connection))
    }

    /// The number of tables and indices, except those of `WORDS`.
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

    /// Creates the file and its tables and makes this table its owner, in one transaction.
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
        // Another table may have become the owner first.
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

    /// The result of an attempt to add a row.
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
            // These fail before anything is written.
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

    /// A connection that does not make this table the owner of the file.
    fn unowned(&self) -> Result<Connection> {
        match self.existing()? {
            Some(connection) => Ok(connection),
            None => self
                .connect()
                .map_err(|error| self.failed("make the register", &error)),
        }
    }

    /// Adds a row to the table of `WORDS`.
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

    /// Removes the row, and the table of `WORDS` with its last row.
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
