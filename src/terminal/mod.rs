//! The line editor of the prompt, on separate threads, because reading from a terminal blocks. The executable only.
//!
//! One thread edits lines. It posts events, and each event wakes the selector of the VM that has opened the editor. Two
//! events are questions (which completions there are; whether a text is complete); that thread waits for their answers.
//! A second thread prints above the prompt, because the crate's printer blocks until the editing thread has read the
//! text. The threads use no data of the VM. They end with the process: a read from a terminal cannot be interrupted.
//!
//! | file | topic |
//! |---|---|
//! | `editing` | the thread that edits lines |
//! | `event` | the messages between this thread and the VM |

mod editing;
mod event;

use crate::event::Waker;
pub(crate) use event::Event;
use event::{Answer, Printer};
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcsetattr};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

/// A line editor. Its threads start with the first prompt.
pub(crate) struct LineEditor {
    events: Receiver<Event>,
    answers: Sender<(u64, Answer)>,
    prompts: Sender<String>,
    /// The data of the editing thread, until it starts.
    editing: Option<editing::Editing>,
    printer: Printer,
    /// Whether the editing thread reads, so that the terminal may be in raw mode.
    is_reading: bool,
    /// The mode of the terminal when the editor was opened; `None` if standard input is not a terminal.
    mode: Option<Termios>,
}

impl LineEditor {
    /// Opens a line editor for standard input. Its events wake the selector of `waker`. Entered texts are stored in the
    /// file `history`; if this file cannot be read or written, texts are remembered until the process ends.
    pub(crate) fn new(waker: Arc<Waker>, history: Option<PathBuf>) -> LineEditor {
        let (event_sender, events) = channel();
        let (answers, answer_receiver) = channel();
        let (prompts, prompt_receiver) = channel();
        let printer = Printer::default();
        let port = editing::Port::new(event_sender, answer_receiver, waker);
        let editing = editing::Editing { port, prompts: prompt_receiver, history, printer: printer.clone() };
        let mode = tcgetattr(io::stdin()).ok();
        LineEditor { events, answers, prompts, editing: Some(editing), printer, is_reading: false, mode }
    }

    /// Shows the prompt and reads a text. An event reports the result.
    ///
    /// # Errors
    /// Returns an error if no thread can be started.
    pub(crate) fn read(&mut self, prompt: &str) -> io::Result<()> {
        if let Some(editing) = self.editing.take() {
            std::thread::Builder::new().name("lio-prompt".into()).spawn(move || editing.run())?;
        }
        self.is_reading = true;
        // The thread ends only with the process, so it receives the prompt.
        let _ = self.prompts.send(prompt.to_owned());
        Ok(())
    }

    /// Returns the next event, if there is one.
    pub(crate) fn event(&mut self) -> Option<Event> {
        let event = self.events.try_recv().ok()?;
        if !matches!(event, Event::Complete(..) | Event::Check(..)) {
            self.is_reading = false;
        }
        Some(event)
    }

    /// Answers [`Event::Complete`]: `start` is where the completed word begins, in bytes.
    pub(crate) fn complete(&self, question: u64, start: usize, words: Vec<String>) {
        let _ = self.answers.send((question, Answer::Completions(start, words)));
    }

    /// Answers [`Event::Check`].
    pub(crate) fn confirm(&self, question: u64, is_complete: bool) {
        let _ = self.answers.send((question, Answer::IsComplete(is_complete)));
    }

    /// Prints a text above the prompt. Returns false if the caller can write to standard output itself, because no
    /// prompt is shown.
    pub(crate) fn print(&self, text: &str) -> bool {
        let printer = self.printer.get().and_then(Option::as_ref);
        self.is_reading && printer.is_some_and(|printer| printer.send(text.to_owned()).is_ok())
    }

    /// Restores the mode of the terminal, before the process ends.
    pub(crate) fn restore(&mut self) {
        if let (true, Some(mode)) = (self.is_reading, &self.mode) {
            let _ = tcsetattr(io::stdin(), OptionalActions::Now, mode);
        }
    }
}

impl Drop for LineEditor {
    fn drop(&mut self) {
        self.restore();
    }
}
