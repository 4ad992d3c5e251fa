//! The messages between the editing thread and the VM: events, and the answers to those events that are questions.

use std::sync::mpsc::Sender;
use std::sync::{Arc, OnceLock};

/// A report of the editing thread.
pub(crate) enum Event {
    /// The user has entered this text, which may have several lines.
    Entered(String),
    /// The user has pressed Ctrl-C at the prompt.
    Interrupted,
    /// The user has pressed Ctrl-D on an empty line, or the input has ended.
    End,
    /// The terminal cannot be read.
    Failed(String),
    /// A question: the completions of this text, which ends at the cursor. `LineEditor::complete` answers it.
    Complete(u64, String),
    /// A question: whether this text is complete, or continues on another line. `LineEditor::confirm` answers it.
    Check(u64, String),
}

/// The answer to a question.
pub(super) enum Answer {
    /// Where the completed word begins, in bytes, and the words that can replace it.
    Completions(usize, Vec<String>),
    IsComplete(bool),
}

/// The sender of the printing thread; `None` if the terminal has no printer. Not set before the first prompt.
pub(super) type Printer = Arc<OnceLock<Option<Sender<String>>>>;
