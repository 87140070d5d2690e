//! The tokens of a text, and messages that name the place of a token.

use sqlparser::tokenizer::{Location, Token, TokenWithSpan, Whitespace};

use crate::error::{Error, Result, shorten};

pub(super) fn syntax(at: Location, message: impl Into<String>) -> Error {
    Error::Syntax {
        message: message.into(),
        line: at.line.max(1),
        column: at.column.max(1),
    }
}

/// Reads tokens from left to right; the grammar adds its rules in files of their own.
#[derive(Debug)]
pub(super) struct Parser {
    pub(super) tokens: Vec<TokenWithSpan>,
    pub(super) position: usize,
    pub(super) nesting: usize,
    pub(super) end: Location,
}

impl Parser {
    pub(super) fn peek(&self) -> Option<&Token> {
        self.peek_at(0)
    }

    pub(super) fn peek_at(&self, ahead: usize) -> Option<&Token> {
        self.tokens
            .get(self.position.saturating_add(ahead))
            .map(|token| &token.token)
    }

    pub(super) fn place(&self) -> Location {
        self.tokens
            .get(self.position)
            .map_or(self.end, |token| token.span.start)
    }

    pub(super) fn next(&mut self) -> Option<Token> {
        let slot = self.tokens.get_mut(self.position)?;
        self.position += 1;
        // The token is replaced instead of cloned: the text of a literal moves into the tree.
        Some(std::mem::replace(
            &mut slot.token,
            Token::Whitespace(Whitespace::Space),
        ))
    }

    pub(super) fn unexpected(&self, allowed: &str) -> Error {
        let found = self
            .peek()
            .map_or_else(|| "the end".to_owned(), ToString::to_string);
        syntax(
            self.place(),
            format!("found {}, expected {allowed}", shorten(&found)),
        )
    }

    pub(super) fn word_at(&self, ahead: usize) -> Option<&str> {
        match self.peek_at(ahead) {
            Some(Token::Word(word)) if word.quote_style.is_none() => Some(&word.value),
            _ => None,
        }
    }

    pub(super) fn is_keyword_at(&self, ahead: usize, keyword: &str) -> bool {
        self.word_at(ahead)
            .is_some_and(|word| word.eq_ignore_ascii_case(keyword))
    }

    pub(super) fn keyword(&mut self, keyword: &str) -> bool {
        let found = self.is_keyword_at(0, keyword);
        self.position += usize::from(found);
        found
    }

    pub(super) fn expect_keyword(&mut self, keyword: &str) -> Result<()> {
        if self.keyword(keyword) {
            Ok(())
        } else {
            Err(self.unexpected(keyword))
        }
    }

    pub(super) fn symbol(&mut self, token: &Token) -> bool {
        let found = self.peek() == Some(token);
        self.position += usize::from(found);
        found
    }

    pub(super) fn expect_symbol(&mut self, token: &Token) -> Result<()> {
        if self.symbol(token) {
            Ok(())
        } else {
            Err(self.unexpected(&token.to_string()))
        }
    }
}
