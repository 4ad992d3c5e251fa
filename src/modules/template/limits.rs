//! Limits of a template's source, checked before minijinja parses it: its parser, its compiler and its values recurse
//! once for each operator of an expression, each `elif`, and each list in a list.
//!
//! `{% set %}` in a loop can nest values without end, so a filter that checks the value is added to its
//! expressions.
//!
//! Most templates need only a small stack: whether a template is *complex* is determined, too.

use minijinja::machinery::{Span, Token, tokenize};
use minijinja::syntax::SyntaxConfig;
use minijinja::value::ValueKind;
use minijinja::{Error, ErrorKind, Value};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The maximum number of tokens of an expression that may be inside each other.
const MAX_TOKENS: usize = 400;

/// The maximum number of brackets inside each other.
const MAX_BRACKETS: usize = 50;

/// The maximum number of `elif` in the `if` blocks that are open.
const MAX_ELIFS: usize = 500;

/// The maximum number of lists and maps inside each other in a value of `{% set %}`.
const MAX_DEPTH: usize = 200;

/// A source that exceeds one of these needs a large stack.
const SIMPLE_TOKENS: usize = 100;
const SIMPLE_BRACKETS: usize = 10;
const SIMPLE_ELIFS: usize = 50;

/// Filters and functions whose results have more levels than their arguments.
const NESTING: [&str; 8] = ["batch", "slice", "groupby", "zip", "items", "dictsort", "map", "dict"];

/// The maximum length of a lazy list that is converted.
const MAX_CONVERTED: usize = 65536;

/// The names of the filters that check the values of `{% set name = … %}` and `{% set namespace.field = … %}`.
pub(super) const FILTER: &str = "lio_nested";
pub(super) const FIELD_FILTER: &str = "lio_field";

/// Texts that are added to the source before and after an expression. A form feed is white space.
const BEFORE: &str = "(\x0c";
const AFTER: &str = ")\x0c|lio_nested";
const AFTER_FIELD: &str = ")\x0c|lio_field";
const AFTER_CHAIN: &str = "\x0c|lio_field";

/// Returns a line of a checked source as the program has written it.
pub(super) fn original(line: &str) -> String {
    let mut line = line.to_owned();
    for added in [BEFORE, AFTER, AFTER_FIELD, AFTER_CHAIN] {
        line = line.replace(added, "");
    }
    line
}

/// A source that is within the limits.
pub(super) struct Checked {
    /// The source, with checks of the values of `{% set %}`.
    pub(super) source: String,
    /// Whether the template needs a large stack.
    pub(super) is_complex: bool,
}

/// Checks a source. Returns the message for a source that exceeds a limit, which begins with its line.
pub(super) fn checked(source: &str, syntax: &SyntaxConfig) -> Result<Checked, String> {
    let mut scan = Scan::default();
    for token in tokenize(source, false, syntax.clone()) {
        // The parser reports the token that is invalid.
        let Ok((token, span)) = token else { break };
        scan.token(&token, span).map_err(|problem| format!("{}: syntax error: {problem}", span.start_line))?;
    }
    let mut checked = String::with_capacity(source.len());
    let mut from = 0;
    for (at, text) in scan.insertions {
        checked.push_str(&source[from..at]);
        checked.push_str(text);
        from = at;
    }
    checked.push_str(&source[from..]);
    Ok(Checked { source: checked, is_complex: scan.is_complex })
}

/// The tokens between two brackets.
#[derive(Default)]
struct Level {
    /// The number of tokens since the last comma.
    tokens: usize,
    /// The greatest depth of the brackets among them.
    inner: usize,
    /// The greatest depth of the items before the last comma.
    items: usize,
}

/// A `{% set %}`.
#[derive(Default)]
struct Assignment {
    /// The end of `=`; 0 before it.
    sign: usize,
    /// Whether it is a field of a namespace.
    is_field: bool,
    /// Whether the expression may build a value from others.
    builds: bool,
}

#[derive(Default)]
struct Scan {
    levels: Vec<Level>,
    /// The first word of the statement.
    word: Option<String>,
    assignment: Option<Assignment>,
    /// The number of `elif` of each open `if`.
    elifs: Vec<usize>,
    /// The end of the last token.
    end: usize,
    /// The previous three tokens of `loop.cycle(`.
    cycle: usize,
    /// The number of macros that are open: what they pass to each other may have more levels at each call.
    macros: usize,
    /// Whether the last token ends a value, so that a bracket after it does not begin a list or a map.
    is_after_value: bool,
    is_complex: bool,
    insertions: Vec<(usize, &'static str)>,
}

impl Scan {
    fn token(&mut self, token: &Token<'_>, span: Span) -> Result<(), String> {
        match token {
            Token::TemplateData(_) => return Ok(()),
            Token::VariableStart | Token::BlockStart => {
                self.levels = vec![Level::default()];
                (self.word, self.assignment, self.cycle, self.is_after_value) = (None, None, 0, false);
                return Ok(());
            }
            Token::VariableEnd => return Ok(()),
            Token::BlockEnd => {
                self.end_assignment();
                return Ok(());
            }
            _ => {}
        }
        let is_first = self.word.is_none();
        if is_first {
            self.statement(if let Token::Ident(word) = token { word } else { "" })?;
        } else {
            self.assign(token, span);
        }
        self.end = span.end_offset as usize;
        self.find_nesting(token);
        self.check_cycle(token)?;
        self.count(token)
    }

    /// Handles the first word of a statement or an expression.
    fn statement(&mut self, word: &str) -> Result<(), String> {
        self.word = Some(word.to_owned());
        match word {
            "set" => self.assignment = Some(Assignment::default()),
            "if" => self.elifs.push(0),
            "endif" => drop(self.elifs.pop()),
            "macro" | "call" => self.macros += 1,
            "endmacro" | "endcall" => self.macros = self.macros.saturating_sub(1),
            "elif" => {
                if let Some(last) = self.elifs.last_mut() {
                    *last += 1;
                }
                let open = self.elifs.iter().sum::<usize>();
                self.is_complex |= open > SIMPLE_ELIFS;
                if open > MAX_ELIFS {
                    return Err(format!("more than {MAX_ELIFS} 'elif'"));
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn assign(&mut self, token: &Token<'_>, span: Span) {
        let is_outside = self.levels.len() == 1;
        let Some(assignment) = &mut self.assignment else { return };
        match token {
            Token::Assign if assignment.sign == 0 && is_outside => assignment.sign = span.end_offset as usize,
            Token::Dot if assignment.sign == 0 => assignment.is_field = true,
            Token::ParenOpen | Token::BracketOpen | Token::BraceOpen | Token::Pipe | Token::Comma => {
                assignment.builds = true;
            }
            _ => {}
        }
    }

    fn end_assignment(&mut self) {
        let Some(Assignment { sign, is_field, builds }) = self.assignment.take() else { return };
        if sign > 0 && (is_field || builds) && self.end > sign {
            self.insertions.extend([(sign, BEFORE), (self.end, if is_field { AFTER_FIELD } else { AFTER })]);
        } else if sign == 0 && builds {
            self.insertions.push((self.end, AFTER_CHAIN));
        }
    }

    /// Finds expressions that can make a value with more levels at each recursive call.
    fn find_nesting(&mut self, token: &Token<'_>) {
        let builds = match token {
            Token::BracketOpen | Token::ParenOpen | Token::BraceOpen => !self.is_after_value,
            Token::Ident(name) => NESTING.contains(name),
            _ => false,
        };
        let is_repeated = self.macros > 0 || self.word.as_deref() == Some("with");
        self.is_complex |= matches!(token, Token::Ident("recursive")) || builds && is_repeated;
        self.is_after_value = match token {
            Token::Ident(name) => !matches!(*name, "in" | "is" | "not" | "and" | "or" | "if" | "else"),
            Token::Str(_) | Token::String(_) => true,
            Token::BracketClose | Token::ParenClose | Token::BraceClose => true,
            _ => false,
        };
    }

    /// Refuses `loop.cycle()`, which has no value.
    fn check_cycle(&mut self, token: &Token<'_>) -> Result<(), String> {
        self.cycle = match (self.cycle, token) {
            (_, Token::Ident("loop")) => 1,
            (1, Token::Dot) => 2,
            (2, Token::Ident("cycle")) => 3,
            (3, Token::ParenOpen) => 4,
            (4, Token::ParenClose) => return Err("loop.cycle needs at least one value".into()),
            _ => 0,
        };
        Ok(())
    }

    fn count(&mut self, token: &Token<'_>) -> Result<(), String> {
        // The values of these statements may use each other.
        let is_chain = matches!(self.word.as_deref(), Some("with" | "macro" | "call"));
        if let (Token::BracketClose | Token::ParenClose | Token::BraceClose, 2..) = (token, self.levels.len()) {
            let closed = self.levels.pop().unwrap_or_default();
            let inner = closed.items.max(closed.tokens + closed.inner);
            if let Some(outer) = self.levels.last_mut() {
                outer.inner = outer.inner.max(inner);
            }
        }
        let Some(level) = self.levels.last_mut() else { return Ok(()) };
        level.tokens += 1;
        match token {
            Token::Comma if !is_chain => {
                level.items = level.items.max(level.tokens + level.inner);
                (level.tokens, level.inner) = (0, 0);
            }
            Token::BracketOpen | Token::ParenOpen | Token::BraceOpen => self.levels.push(Level::default()),
            _ => {}
        }
        let parts = self.levels.iter().map(|level| level.tokens + level.inner).sum::<usize>();
        self.is_complex |= parts > SIMPLE_TOKENS || self.levels.len() > SIMPLE_BRACKETS + 1;
        if self.levels.len() > MAX_BRACKETS + 1 {
            return Err(format!("more than {MAX_BRACKETS} brackets inside each other"));
        }
        if parts > MAX_TOKENS {
            return Err(format!("an expression has more than {MAX_TOKENS} parts (use {{% set %}} for some of them)"));
        }
        Ok(())
    }
}

/// Checks the values of `{% set %}`.
pub(super) struct Depth {
    /// The number of elements that a rendering may still check.
    left: Arc<AtomicU64>,
    /// Whether the value becomes a field of a namespace: it must not contain a namespace, because of cycles.
    is_field: bool,
}

impl Depth {
    pub(super) fn new(left: &Arc<AtomicU64>, is_field: bool) -> Depth {
        Depth { left: left.clone(), is_field }
    }

    /// The filter: returns the value. The result of `list + list` is lazy, and slower at each `{% set %}` in a loop, so
    /// it is converted to a list.
    pub(super) fn check(&self, value: Value) -> Result<Value, Error> {
        self.check_level(&value, 0)?;
        let is_lazy = value.kind() == ValueKind::Iterable && value.len().is_some_and(|length| length <= MAX_CONVERTED);
        Ok(if is_lazy { value.try_iter()?.collect() } else { value })
    }

    fn check_level(&self, value: &Value, depth: usize) -> Result<(), Error> {
        let is_map = match value.kind() {
            ValueKind::Seq | ValueKind::Iterable => false,
            ValueKind::Map => true,
            _ => return Ok(()),
        };
        if depth == MAX_DEPTH {
            let problem = format!("a value has more than {MAX_DEPTH} lists and maps inside each other");
            return Err(Error::new(ErrorKind::InvalidOperation, problem));
        }
        if self.is_field && value.as_object().is_some_and(|object| object.type_name().ends_with("::Namespace")) {
            return Err(Error::new(ErrorKind::InvalidOperation, "a namespace cannot contain a namespace"));
        }
        for item in value.try_iter()? {
            let before = self.left.load(Ordering::Relaxed);
            if before == 0 {
                return Err(ErrorKind::OutOfFuel.into());
            }
            self.left.store(before - 1, Ordering::Relaxed);
            self.check_level(&item, depth + 1)?;
            if is_map {
                self.check_level(&value.get_item(&item)?, depth + 1)?;
            }
        }
        Ok(())
    }
}
