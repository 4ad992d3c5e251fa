//! The files that a script has loaded, and which of them have changed since. Folders are watched, not files, because
//! editors save files by renaming. An event in a folder only triggers a check, which compares fingerprints.

use super::event::Event;
use crate::cli::report::report;
use crate::file::supervisor_link::Fingerprint;
use notify::{EventKind, RecommendedWatcher, RecursiveMode, Watcher};
use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc::Sender;

/// The maximum number of symbolic links to follow.
const MAX_LINKS: usize = 16;

/// The files of the newest process, and the files of the previous process while it may have to continue.
#[derive(Default)]
pub(super) struct Files {
    files: HashMap<PathBuf, Fingerprint>,
    previous: HashMap<PathBuf, Fingerprint>,
    folders: HashMap<PathBuf, Fingerprint>,
    watcher: Option<RecommendedWatcher>,
    /// Whether folders cannot be watched, so that files are checked periodically.
    polls: bool,
}

impl Files {
    pub(super) fn new(events: Sender<Event>) -> Files {
        let on_event = move |event: notify::Result<notify::Event>| {
            let is_read = event.is_ok_and(|event| matches!(event.kind, EventKind::Access(_)));
            if !is_read {
                let _ = events.send(Event::Disk);
            }
        };
        let watcher = notify::recommended_watcher(on_event).ok();
        let mut files = Files { watcher, ..Files::default() };
        if files.watcher.is_none() {
            files.fall_back_to_polling();
        }
        files
    }

    /// Makes the supervisor check the files periodically from now on.
    fn fall_back_to_polling(&mut self) {
        if !self.polls {
            report("the system cannot watch more folders; checking the files every second");
        }
        self.polls = true;
    }

    /// Returns how many files were loaded.
    pub(super) fn count(&self) -> usize {
        self.files.values().filter(|known| known.exists()).count()
    }

    /// Whether files must be checked although no event has arrived.
    pub(super) fn must_poll(&self) -> bool {
        self.polls || self.folders.values().any(|folder| !folder.exists())
    }

    /// Adds a file that a process is loading, or has not found. `fingerprint` is the state of the file at that time.
    pub(super) fn add(&mut self, path: PathBuf, fingerprint: Fingerprint) {
        self.watch_folders_of(&path);
        self.previous.remove(&path);
        self.files.insert(path, fingerprint);
    }

    /// Watches the folders in which the file at `path` may change.
    fn watch_folders_of(&mut self, path: &Path) {
        let mut folders = Vec::new();
        folders_of(path, &mut folders, MAX_LINKS);
        for folder in folders {
            if !self.folders.contains_key(&folder) {
                self.watch(folder);
            }
        }
    }

    /// Watches a folder, if it exists.
    fn watch(&mut self, folder: PathBuf) {
        let found = Fingerprint::of(&folder);
        if found.exists()
            && let Some(watcher) = &mut self.watcher
            && watcher.watch(&folder, RecursiveMode::NonRecursive).is_err()
        {
            self.fall_back_to_polling();
        }
        self.folders.insert(folder, found);
    }

    /// Called when a new process starts. If the process succeeds, only the files that it loads are checked from then
    /// on.
    pub(super) fn begin_process(&mut self) {
        let files = std::mem::take(&mut self.files);
        self.previous.extend(files);
    }

    /// Called when the new process has taken over. Files that only the previous process has loaded are no longer
    /// checked.
    pub(super) fn process_runs(&mut self) {
        self.previous.clear();
        let mut wanted = Vec::new();
        for path in self.files.keys() {
            folders_of(path, &mut wanted, MAX_LINKS);
        }
        let old: Vec<_> = self.folders.keys().cloned().collect();
        for folder in old.into_iter().filter(|folder| !wanted.contains(folder)) {
            self.folders.remove(&folder);
            if let Some(watcher) = &mut self.watcher {
                let _ = watcher.unwatch(&folder);
            }
        }
    }

    /// Called when the new process has failed. The files of both processes are checked from now on.
    pub(super) fn process_failed(&mut self) {
        let files = std::mem::take(&mut self.files);
        self.files = std::mem::take(&mut self.previous);
        self.files.extend(files);
    }

    /// Returns the files that have changed since they were loaded. A file that was removed does not count as changed:
    /// an editor may be about to write it again, and no program could run without it.
    pub(super) fn changed(&mut self) -> Vec<PathBuf> {
        self.rewatch_folders();
        let mut changed = Vec::new();
        for files in [&mut self.files, &mut self.previous] {
            for (path, known) in files {
                let found = Fingerprint::of(path);
                if found != *known && found.exists() {
                    *known = found;
                    changed.push(path.clone());
                }
            }
        }
        changed.sort();
        changed.dedup();
        changed
    }

    /// Renews the watches of folders that were replaced, and watches new folders of files that did not exist.
    fn rewatch_folders(&mut self) {
        let known = self.folders.iter();
        let replaced = known.filter(|(folder, known)| !Fingerprint::of(folder).is_same_file(known));
        for folder in replaced.map(|(folder, _)| folder.clone()).collect::<Vec<_>>() {
            if let Some(watcher) = &mut self.watcher {
                let _ = watcher.unwatch(&folder);
            }
            self.watch(folder);
        }
        let files = self.files.iter().chain(&self.previous);
        let missing = files.filter(|(path, known)| {
            let folder = path.parent();
            !known.exists() && folder.is_some_and(|folder| !self.folders.contains_key(folder))
        });
        for path in missing.map(|(path, _)| path.clone()).collect::<Vec<_>>() {
            self.watch_folders_of(&path);
        }
    }
}

/// Collects the folders to watch for the file at `path`: the file's own folder or its nearest existing ancestor, and
/// the folders of each symbolic link on the path.
fn folders_of(path: &Path, folders: &mut Vec<PathBuf>, links: usize) {
    let mut add = |folder: &Path| {
        if !folders.iter().any(|known| known == folder) {
            folders.push(folder.to_path_buf());
        }
    };
    let mut parents = path.ancestors().skip(1);
    if let Some(parent) = parents.find(|folder| folder.is_dir()) {
        add(parent);
    }
    for part in path.ancestors() {
        let (Ok(target), Some(parent)) = (fs::read_link(part), part.parent()) else { continue };
        add(parent);
        if links > 0 {
            let rest = path.strip_prefix(part).unwrap_or(Path::new(""));
            let mut real = parent.join(target);
            if rest != Path::new("") {
                real.push(rest);
            }
            return folders_of(&real, folders, links - 1);
        }
    }
}
