//! `lio.template.core`: templates of the crate `minijinja`. `lualib/lio/template.lua` checks the arguments and raises the
//! errors that the functions of this module return.
//!
//! | file | topic |
//! |---|---|
//! | `values` | Lua values as values of templates |
//! | `source` | the files of templates |
//! | `escaping` | escaping of values for HTML |
//! | `limits` | limits of a template's source and of its values |
//! | `large_stack` | the stack on which templates are parsed and rendered |
//! | `failure` | errors of templates as text |
//!
//! Invariant: no Lua code runs while a template is rendered. All values are copied before.

mod escaping;
mod failure;
mod large_stack;
mod limits;
mod source;
mod values;

use crate::file::folder::Folder;
use crate::lua::{Call, Either, Fault, Function, FunctionTable, Kind, Module, New, Nil, Object, Stack, functions};
use crate::modules::file::refused;
use minijinja::syntax::SyntaxConfig;
use minijinja::{AutoEscape, Environment, Error, UndefinedBehavior, Value};
use source::Source;
use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The templates of a folder, and their settings.
pub(crate) struct Views {
    environment: Environment<'static>,
    /// The folder as the program has named it, with a final slash; empty if there is none.
    folder: String,
    /// The names of the templates that are not files.
    added: HashSet<String>,
    /// The number of elements that a rendering may check (`limits::Depth`), and how many are left.
    most_checked: u64,
    left: Arc<AtomicU64>,
    /// Whether a template is complex (`limits`), so that rendering needs a large stack.
    is_complex: Arc<AtomicBool>,
}

/// How many elements may be checked for each step of the option `fuel`.
const CHECKED_PER_STEP: u64 = 4;

impl Object for Views {
    const NAME: &'static str = "lio.template.views";
    const METHODS: FunctionTable = functions! { add, set_globals, render, render_string, close: CLOSE };
}

/// The result of a call: nil or a text, or `nil, message`.
type Rendered<T> = Either<T, (Nil, String)>;

/// Converts a message to a result of a function.
fn or_message<T>(result: Result<T, String>) -> Rendered<T> {
    match result {
        Ok(value) => Either::One(value),
        Err(message) => Either::Other((Nil, message)),
    }
}

/// Returns the option `name` of the table at argument 2: its index, which the caller must drop.
fn option(call: &mut Call<'_>, name: &'static str) -> Result<i32, Fault> {
    call.raw_field(2, name)
}

fn flag(call: &mut Call<'_>, name: &'static str) -> Result<bool, Fault> {
    let at = option(call, name)?;
    Ok(call.is_true(at))
}

/// `core.new(folder, options)`: returns the templates of `folder`, which may be nil; or `nil, message, code`. `options`
/// is a table with all of the options of `template.new` but `folder`, `globals` and `templates`.
fn new(call: &mut Call<'_>) -> Result<New<Views>, Fault> {
    let mut environment = Environment::new();
    // Errors then contain the source of the template.
    environment.set_debug(true);
    escaping::install(&mut environment);
    let autoescape = option(call, "autoescape")?;
    match call.kind(autoescape) {
        Kind::Boolean if call.is_true(autoescape) => environment.set_auto_escape_callback(|_| AutoEscape::Html),
        Kind::Boolean => environment.set_auto_escape_callback(|_| AutoEscape::None),
        _ => environment.set_auto_escape_callback(escaping_of),
    }
    let undefined = option(call, "undefined")?;
    environment.set_undefined_behavior(match call.bytes(undefined)? {
        b"strict" => UndefinedBehavior::Strict,
        b"chainable" => UndefinedBehavior::Chainable,
        _ => UndefinedBehavior::Lenient,
    });
    let fuel = option(call, "fuel")?;
    let fuel = call.optional(fuel, Stack::integer)?.map(|fuel| fuel as u64);
    environment.set_fuel(fuel);
    let most_checked = fuel.map_or(u64::MAX, |fuel| fuel.saturating_mul(CHECKED_PER_STEP));
    let left = Arc::new(AtomicU64::new(most_checked));
    let (depth, field_depth) = (limits::Depth::new(&left, false), limits::Depth::new(&left, true));
    environment.add_filter(limits::FILTER, move |value: Value| depth.check(value));
    environment.add_filter(limits::FIELD_FILTER, move |value: Value| field_depth.check(value));
    environment.set_path_join_callback(|name, _| plain(name));
    let recursion = option(call, "recursion")?;
    environment.set_recursion_limit(call.integer(recursion)? as usize);
    let syntax = SyntaxConfig::builder()
        .trim_blocks(flag(call, "trim_blocks")?)
        .lstrip_blocks(flag(call, "lstrip_blocks")?)
        .keep_trailing_newline(flag(call, "keep_trailing_newline")?)
        .build()
        .map_err(Fault::message)?;
    environment.set_syntax(syntax.clone());
    let is_complex = Arc::new(AtomicBool::new(false));
    let reload = flag(call, "reload")?;
    environment.set_auto_reload(reload);
    let mut name = String::new();
    if !call.is_none(1) {
        let path = call.bytes(1)?;
        let folder = Folder::open(path).map_err(refused)?;
        name = String::from_utf8_lossy(path).into_owned();
        if !name.ends_with('/') {
            name.push('/');
        }
        let source = Source::new(folder, name.clone(), reload, syntax, is_complex.clone());
        environment.set_loader(move |name| source.load(name));
    }
    Ok(New::of(Views { environment, folder: name, added: HashSet::new(), most_checked, left, is_complex }))
}

/// Returns the shortest form of a template's name: without `.` and empty parts. So a file has only one name.
fn plain(name: &str) -> Cow<'_, str> {
    if name.starts_with('/') || name.ends_with('/') || !name.split('/').any(|part| part.is_empty() || part == ".") {
        return name.into();
    }
    let parts: Vec<&str> = name.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
    parts.join("/").into()
}

/// Returns how the values in the template `name` are escaped: by its extension.
fn escaping_of(name: &str) -> AutoEscape {
    let name = name.to_ascii_lowercase();
    let name = [".j2", ".jinja", ".jinja2"].iter().find_map(|end| name.strip_suffix(end)).unwrap_or(&name);
    match name.rsplit_once('.').map(|(_, extension)| extension) {
        Some("html" | "htm" | "xhtml" | "xml" | "svg") => AutoEscape::Html,
        Some("json" | "js") => AutoEscape::Json,
        _ => AutoEscape::None,
    }
}

impl Views {
    /// Converts an error of a template to the message of a function.
    /// `unstored` is the name of the rendered template, if it is not stored.
    fn message(&self, error: &Error, unstored: Option<&str>) -> String {
        failure::text(error, |name| self.shown(name, unstored))
    }

    /// Returns the name of a template as messages show it.
    fn shown(&self, name: &str, unstored: Option<&str>) -> String {
        match self.added.contains(name) || unstored == Some(name) {
            true => name.to_owned(),
            false => format!("{}{name}", self.folder),
        }
    }
}

/// `views:add(name, source)`: adds a template that is not a file. Returns true, or nil and a message.
fn add(call: &mut Call<'_>) -> Result<Rendered<bool>, Fault> {
    let (views, stack) = call.object_and_stack::<Views>(1)?;
    let name = plain(stack.utf8(2)?).into_owned();
    views.added.insert(name.clone());
    let source = match limits::checked(stack.utf8(3)?, views.environment.syntax()) {
        Ok(checked) => {
            views.is_complex.fetch_or(checked.is_complex, Ordering::Relaxed);
            checked.source
        }
        Err(message) => return Ok(Either::Other((Nil, format!("{name}:{message}")))),
    };
    let added = large_stack::run(views.is_complex.load(Ordering::Relaxed), || {
        let added = views.environment.add_template_owned(name, source);
        added.map(|()| true).map_err(|error| failure::text(&error, str::to_owned))
    });
    Ok(or_message(added.and_then(|added| added)))
}

/// `views:set_globals(globals)`: sets the variables that every template has. Returns true, or nil and a message.
fn set_globals(call: &mut Call<'_>) -> Result<Rendered<bool>, Fault> {
    let (views, stack) = call.object_and_stack::<Views>(1)?;
    Ok(or_message(values::variables(stack, 2).map(|globals| {
        for (name, value) in globals {
            views.environment.add_global(name, value);
        }
        true
    })))
}

/// A template to render.
struct Rendering<'a> {
    name: &'a str,
    /// The source, if the template is not stored.
    source: Option<&'a str>,
    is_complex: bool,
}

/// Renders with the variables in the table at argument 3, which may be nil.
fn render_with(call: &mut Call<'_>, what: Rendering<'_>) -> Result<Rendered<String>, Fault> {
    let (views, stack) = call.object_and_stack::<Views>(1)?;
    let data = match values::variables(stack, 3) {
        Ok(data) => Value::from_pairs(data),
        Err(message) => return Ok(Either::Other((Nil, message))),
    };
    // Frees the templates that a newer file has replaced: no reference to them is left.
    views.environment.remove_template("");
    let views = &*views;
    let (name, unstored) = (what.name, what.source.and(Some(what.name)));
    let render = |is_complex| {
        views.left.store(views.most_checked, Ordering::Relaxed);
        let rendered = large_stack::run(is_complex, || {
            let rendered = match what.source {
                Some(source) => views.environment.render_named_str(name, source, data.clone()),
                None => views.environment.get_template(name).and_then(|template| template.render(data.clone())),
            };
            rendered.map_err(|error| views.message(&error, unstored))
        });
        rendered.map_err(|problem| format!("{}: {problem}", views.shown(name, unstored))).and_then(|rendered| rendered)
    };
    let is_complex = || views.is_complex.load(Ordering::Relaxed);
    let is_known = is_complex();
    let rendered = render(is_known || what.is_complex);
    // The source of a file refuses its first complex template.
    Ok(or_message(if is_complex() && !is_known { render(true) } else { rendered }))
}

/// `views:render(name, data)`: returns the text of the template `name`, rendered with the variables `data`; or nil and
/// a message.
fn render(call: &mut Call<'_>) -> Result<Rendered<String>, Fault> {
    let name = plain(call.utf8(2)?).into_owned();
    render_with(call, Rendering { name: &name, source: None, is_complex: false })
}

/// `views:render_string(source, data, name)`: like `render`, for a template that is not stored.
fn render_string(call: &mut Call<'_>) -> Result<Rendered<String>, Fault> {
    let name = call.utf8(4)?.to_owned();
    let (views, stack) = call.object_and_stack::<Views>(1)?;
    match limits::checked(stack.utf8(2)?, views.environment.syntax()) {
        Ok(limits::Checked { source, is_complex }) => {
            render_with(call, Rendering { name: &name, source: Some(&source), is_complex })
        }
        Err(message) => Ok(Either::Other((Nil, format!("{name}:{message}")))),
    }
}

/// `views:close()`: closes the folder, and frees the templates.
const CLOSE: Function = Function::method_mut(|views: &mut Views| views.environment = Environment::new());

/// Opens `lio.template.core`.
pub(crate) const OPEN: Function = Function::new(|_: &mut Call<'_>| Ok::<_, Fault>(Module(functions! { new })));
