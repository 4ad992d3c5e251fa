//! `lio.line_editor`: the line editor of the prompt (`lualib/lio/repl.lua`). The executable only.

use crate::lua::{Call, Fault, Function, FunctionTable, Many, Module, New, Object, Stack, Value, failed, functions};
use crate::terminal::{Event, LineEditor};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

impl Object for LineEditor {
    const NAME: &'static str = "lio.line_editor";
    const METHODS: FunctionTable = functions! { read, event, complete, confirm, print, restore: RESTORE };
}

/// `line_editor.open(waker [, history])`: returns a line editor for standard input, whose events wake the selector of
/// `waker`. `history` is the path of the file that stores the entered texts.
fn open(call: &mut Call<'_>) -> Result<New<LineEditor>, Fault> {
    let waker = super::waker::argument(call, 1)?;
    let history = call.optional(2, Stack::bytes)?.map(|path| PathBuf::from(OsStr::from_bytes(path)));
    Ok(New::of(LineEditor::new(waker, history)))
}

/// `editor:read(prompt)`: shows the prompt and reads a text, which an event reports. Returns true, or `nil, message,
/// code`.
fn read(call: &mut Call<'_>) -> Result<bool, Fault> {
    let (editor, stack) = call.object_and_stack::<LineEditor>(1)?;
    editor.read(&String::from_utf8_lossy(stack.bytes(2)?)).map_err(failed("read"))?;
    Ok(true)
}

/// `editor:event()`: returns the next event, or nothing: `"entered", text`; `"interrupted"`; `"end"`; `"failed",
/// message`; or a question: `"complete", text, question` or `"check", text, question`.
fn event(call: &mut Call<'_>) -> Result<Many<Value>, Fault> {
    let text = |text: String| Value::String(text.into_bytes());
    let id = |id: u64| Value::Integer(id as i64);
    let values = match call.object_mut::<LineEditor>(1)?.event() {
        None => Vec::new(),
        Some(Event::Entered(entered)) => vec![Value::Name("entered"), text(entered)],
        Some(Event::Interrupted) => vec![Value::Name("interrupted")],
        Some(Event::End) => vec![Value::Name("end")],
        Some(Event::Failed(message)) => vec![Value::Name("failed"), text(message)],
        Some(Event::Complete(question, begin)) => vec![Value::Name("complete"), text(begin), id(question)],
        Some(Event::Check(question, entered)) => vec![Value::Name("check"), text(entered), id(question)],
    };
    Ok(Many(values))
}

/// Returns the number of a question, which is argument 2.
fn question(stack: &Stack) -> Result<u64, Fault> {
    Ok(stack.integer_in(2, 0..=i64::MAX, "question")? as u64)
}

/// `editor:complete(question, start, word, …)`: answers with the words that can replace the text from byte `start` (1
/// is the first) to the cursor.
fn complete(call: &mut Call<'_>) -> Result<(), Fault> {
    let count = call.count();
    let (editor, stack) = call.object_and_stack::<LineEditor>(1)?;
    let question = question(stack)?;
    let start = stack.integer_in(3, 1..=i64::MAX, "start")? as usize - 1;
    let words: Result<Vec<String>, Fault> = (4..=count).map(|index| Ok(stack.utf8(index)?.to_owned())).collect();
    editor.complete(question, start, words?);
    Ok(())
}

/// `editor:confirm(question, is_complete)`: answers whether a text is complete.
fn confirm(call: &mut Call<'_>) -> Result<(), Fault> {
    let (editor, stack) = call.object_and_stack::<LineEditor>(1)?;
    editor.confirm(question(stack)?, stack.is_true(3));
    Ok(())
}

/// `editor:print(text)`: prints a text above the prompt. Returns false if no prompt is shown; the caller then writes
/// the text itself.
fn print(call: &mut Call<'_>) -> Result<bool, Fault> {
    let (editor, stack) = call.object_and_stack::<LineEditor>(1)?;
    Ok(editor.print(&String::from_utf8_lossy(stack.bytes(2)?)))
}

/// `editor:restore()`: restores the mode of the terminal, before the process ends.
const RESTORE: Function = Function::method_mut(LineEditor::restore);

/// Opens `lio.line_editor`.
pub(crate) const OPEN: Function = Function::new(|_: &mut Call<'_>| Ok(Module(functions! { open })));
