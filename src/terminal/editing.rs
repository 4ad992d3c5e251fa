//! The thread that edits lines, with the crate rustyline.
//!
//! Invariant: the thread waits at most [`ANSWER_TIME`] for an answer, so a VM that computes does not block the keyboard.

use super::event::{Answer, Event, Printer};
use crate::event::Waker;
use rustyline::completion::Completer;
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::FileHistory;
use rustyline::validate::{ValidationContext, ValidationResult, Validator};
use rustyline::{CompletionType, Config, Context, Editor, ExternalPrinter, Helper};
use std::cell::Cell;
use std::fs::DirBuilder;
use std::io::ErrorKind;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

/// The time that a question waits for its answer.
const ANSWER_TIME: Duration = Duration::from_secs(2);
/// The maximum number of texts in the history.
const HISTORY: usize = 1000;

/// The data of the thread.
pub(super) struct Editing {
    pub(super) port: Port,
    pub(super) prompts: Receiver<String>,
    pub(super) history: Option<PathBuf>,
    pub(super) printer: Printer,
}

/// Posts events, and receives the answers to questions.
pub(super) struct Port {
    events: Sender<Event>,
    answers: Receiver<(u64, Answer)>,
    waker: Arc<Waker>,
    last_question: AtomicU64,
}

impl Port {
    pub(super) fn new(events: Sender<Event>, answers: Receiver<(u64, Answer)>, waker: Arc<Waker>) -> Port {
        Port { events, answers, waker, last_question: AtomicU64::new(0) }
    }

    fn post(&self, event: Event) {
        // If the editor or the selector was dropped, the process is ending.
        let _ = self.events.send(event);
        let _ = self.waker.wake();
    }

    /// Posts a question. Returns its answer, or `None` if the VM does not answer in time.
    fn ask(&self, question: impl FnOnce(u64) -> Event) -> Option<Answer> {
        let id = self.last_question.fetch_add(1, Ordering::Relaxed) + 1;
        self.post(question(id));
        let deadline = Instant::now() + ANSWER_TIME;
        loop {
            let (answered, answer) =
                self.answers.recv_timeout(deadline.saturating_duration_since(Instant::now())).ok()?;
            // The answer to an earlier question may be late.
            if answered == id {
                return Some(answer);
            }
        }
    }
}

impl Editing {
    /// The main function of the thread: reads a text for each prompt.
    pub(super) fn run(self) {
        let Editing { port, prompts, history, printer } = self;
        let mut editor = match new_editor() {
            Ok(editor) => editor,
            Err(error) => {
                port.post(Event::Failed(error.to_string()));
                return;
            }
        };
        editor.set_helper(Some(Assistant { port, typed: Cell::default() }));
        if let Some(path) = &history {
            // Without a file, the history begins empty.
            let _ = editor.load_history(path);
            let _ = path.parent().map(create_folder);
        }
        let _ = printer.set(editor.create_external_printer().ok().and_then(start_printer));
        for prompt in prompts {
            let event = match read_line(&mut editor, &prompt) {
                Ok(text) => {
                    if editor.add_history_entry(text.as_str()).unwrap_or(false)
                        && let Some(path) = &history
                    {
                        let _ = editor.append_history(path);
                    }
                    Event::Entered(text)
                }
                Err(ReadlineError::Interrupted) => Event::Interrupted,
                Err(ReadlineError::Eof) => Event::End,
                Err(error) => Event::Failed(error.to_string()),
            };
            if let Some(assistant) = editor.helper() {
                assistant.port.post(event);
            }
        }
    }
}

fn new_editor() -> rustyline::Result<Editor<Assistant, FileHistory>> {
    let config = Config::builder().completion_type(CompletionType::List);
    let config = config.history_ignore_space(true).max_history_size(HISTORY)?.history_ignore_dups(true)?;
    Editor::with_config(config.build())
}

/// Reads a text. Bytes that are not UTF-8 are ignored: the editor fails, and continues with what was typed before.
fn read_line(editor: &mut Editor<Assistant, FileHistory>, prompt: &str) -> rustyline::Result<String> {
    let mut typed = (String::new(), String::new());
    loop {
        match editor.readline_with_initial(prompt, (&typed.0, &typed.1)) {
            Err(ReadlineError::Io(error)) if error.kind() == ErrorKind::InvalidData => {
                let changed = editor.helper().and_then(|assistant| assistant.typed.take());
                typed = changed.unwrap_or(typed);
            }
            result => {
                // The next text begins empty.
                drop(editor.helper().map(|assistant| assistant.typed.take()));
                return result;
            }
        }
    }
}

/// Creates the folder of the history, which only its owner can read.
fn create_folder(path: &Path) -> std::io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Starts the thread that prints above the prompt. Returns `None` if it cannot be started.
fn start_printer(mut printer: impl ExternalPrinter + Send + 'static) -> Option<Sender<String>> {
    let (sender, texts) = channel::<String>();
    let print_all = move || {
        for text in texts {
            if printer.print(text).is_err() {
                return;
            }
        }
    };
    let thread = std::thread::Builder::new().name("lio-printer".into());
    thread.spawn(print_all).ok().map(|_| sender)
}

/// Passes the editor's questions to the VM.
struct Assistant {
    port: Port,
    /// The text before and after the cursor, after the last change.
    typed: Cell<Option<(String, String)>>,
}

impl Completer for Assistant {
    type Candidate = String;

    fn complete(&self, line: &str, position: usize, _: &Context<'_>) -> rustyline::Result<(usize, Vec<String>)> {
        let text = line.get(..position).unwrap_or(line).to_owned();
        Ok(match self.port.ask(|id| Event::Complete(id, text)) {
            Some(Answer::Completions(start, words)) if line.is_char_boundary(start) && start <= position => {
                (start, words)
            }
            _ => (position, Vec::new()),
        })
    }
}

impl Validator for Assistant {
    fn validate(&self, context: &mut ValidationContext<'_>) -> rustyline::Result<ValidationResult> {
        let text = context.input().to_owned();
        Ok(match self.port.ask(|id| Event::Check(id, text)) {
            Some(Answer::IsComplete(false)) => ValidationResult::Incomplete,
            _ => ValidationResult::Valid(None),
        })
    }
}

impl Hinter for Assistant {
    type Hint = String;

    /// Records the text: the editor calls this after each change. There is no hint.
    fn hint(&self, line: &str, position: usize, _: &Context<'_>) -> Option<String> {
        let (before, after) = line.split_at_checked(position)?;
        self.typed.set(Some((before.to_owned(), after.to_owned())));
        None
    }
}

impl Highlighter for Assistant {}

impl Helper for Assistant {}
