//! `lio.template.core`: templates of the crate `minijinja`. `lualib/lio/template.lua` checks the arguments and raises the
//! errors that the functions of this module return.
//!
//! | file | topic |
//! |---|---|
//! | `values` | Lua values as values of templates |
//! | `source` | the files of templates |
//! | `escaping` | escaping of values for HTML |
//! | `failure` | errors of templates as text |
//!
//! Invariant: no Lua code runs while a template is rendered. All values are copied before.

mod escaping;
mod failure;
mod source;
mod values;

use crate::file::folder::Folder;
use crate::lua::{Call, Either, Fault, Function, FunctionTable, Kind, Module, New, Nil, Object, Stack, functions};
use crate::modules::file::refused;
use minijinja::syntax::SyntaxConfig;
use minijinja::{AutoEscape, Environment, Error, UndefinedBehavior, Value};
use source::Source;
use std::collections::HashSet;

/// The templates of a folder, and their settings.
pub(crate) struct Views {
    environment: Environment<'static>,
    /// The folder as the program has named it, with a final slash; empty if there is none.
    folder: String,
    /// The names of the templates that are not files.
    added: HashSet<String>,
}

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
    environment.set_fuel(call.optional(fuel, Stack::integer)?.map(|fuel| fuel as u64));
    let recursion = option(call, "recursion")?;
    environment.set_recursion_limit(call.integer(recursion)? as usize);
    let syntax = SyntaxConfig::builder()
        .trim_blocks(flag(call, "trim_blocks")?)
        .lstrip_blocks(flag(call, "lstrip_blocks")?)
        .keep_trailing_newline(flag(call, "keep_trailing_newline")?)
        .build();
    environment.set_syntax(syntax.map_err(Fault::message)?);
    let reload = flag(call, "reload")?;
    environment.set_auto_reload(reload);
    let mut name = String::new();
    if !call.is_none(1) {
        let path = call.bytes(1)?;
        let source = Source::new(Folder::open(path).map_err(refused)?, reload);
        name = String::from_utf8_lossy(path).into_owned();
        if !name.ends_with('/') {
            name.push('/');
        }
        environment.set_loader(move |name| source.load(name));
    }
    Ok(New::of(Views { environment, folder: name, added: HashSet::new() }))
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
        failure::text(error, |name| match self.added.contains(name) || unstored == Some(name) {
            true => name.to_owned(),
            false => format!("{}{name}", self.folder),
        })
    }
}

/// `views:add(name, source)`: adds a template that is not a file. Returns true, or nil and a message.
fn add(call: &mut Call<'_>) -> Result<Rendered<bool>, Fault> {
    let (views, stack) = call.object_and_stack::<Views>(1)?;
    let (name, source) = (stack.utf8(2)?.to_owned(), stack.utf8(3)?.to_owned());
    views.added.insert(name.clone());
    let added = views.environment.add_template_owned(name, source);
    Ok(or_message(added.map(|()| true).map_err(|error| failure::text(&error, str::to_owned))))
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

/// Renders with the variables in the table at argument 3, which may be nil. `unstored` is the name of the template, if it
/// is not stored.
fn render_with(
    call: &mut Call<'_>, unstored: Option<&str>, render: impl FnOnce(&Environment<'_>, Value) -> Result<String, Error>,
) -> Result<Rendered<String>, Fault> {
    let (views, stack) = call.object_and_stack::<Views>(1)?;
    let data = match values::variables(stack, 3) {
        Ok(data) => Value::from_pairs(data),
        Err(message) => return Ok(Either::Other((Nil, message))),
    };
    // Frees the templates that a newer file has replaced: no reference to them is left.
    views.environment.remove_template("");
    let rendered = render(&views.environment, data);
    Ok(or_message(rendered.map_err(|error| views.message(&error, unstored))))
}

/// `views:render(name, data)`: returns the text of the template `name`, rendered with the variables `data`; or nil and
/// a message.
fn render(call: &mut Call<'_>) -> Result<Rendered<String>, Fault> {
    let name = call.utf8(2)?.to_owned();
    render_with(call, None, |environment, data| environment.get_template(&name)?.render(data))
}

/// `views:render_string(source, data, name)`: like `render`, for a template that is not stored.
fn render_string(call: &mut Call<'_>) -> Result<Rendered<String>, Fault> {
    let (source, name) = (call.utf8(2)?.to_owned(), call.utf8(4)?.to_owned());
    render_with(call, Some(&name), |environment, data| environment.render_named_str(&name, &source, data))
}

/// `views:close()`: closes the folder, and frees the templates.
const CLOSE: Function = Function::method_mut(|views: &mut Views| views.environment = Environment::new());

/// Opens `lio.template.core`.
pub(crate) const OPEN: Function = Function::new(|_: &mut Call<'_>| Ok::<_, Fault>(Module(functions! { new })));
