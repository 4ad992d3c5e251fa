//! The files that a script has loaded, and which of them have changed since. Folders are watched, not files,
//! since editors save by renaming; what happens there only makes us look, and fingerprints tell the rest.

use super::event::Event;
use crate::cli::report::report;
use crate::file::reload::Fingerprint;
use notify::{EventKind, RecommendedWatcher, RecursiveMode, Watcher};
use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc::Sender;

/// Links of links that are followed.
const LINKS: usize = 16;

/// The files of the newest process; those of the one before as long as it may have to go on.
#[derive(Default)]
pub(super) struct Files {
    files: HashMap<PathBuf, Fingerprint>,
    before: HashMap<PathBuf, Fingerprint>,
    folders: HashMap<PathBuf, Fingerprint>,
    watcher: Option<RecommendedWatcher>,
    /// Folders cannot be watched: files are looked at every now and then.
    polls: bool,
}

impl Files {
    pub(super) fn new(events: Sender<Event>) -> Files {
        let told = move |event: notify::Result<notify::Event>| {
            let looks = event.is_ok_and(|event| matches!(event.kind, EventKind::Access(_)));
            if !looks {
                let _ = events.send(Event::Disk);
            }
        };
        let watcher = notify::recommended_watcher(told).ok();
        let mut files = Files { watcher, ..Files::default() };
        if files.watcher.is_none() {
            files.fall_back();
        }
        files
    }

    fn fall_back(&mut self) {
        if !self.polls {
            report("the system lets no more folders be watched; looking every second");
        }
        self.polls = true;
    }

    /// How many files were loaded.
    pub(super) fn count(&self) -> usize {
        self.files.values().filter(|known| known.exists()).count()
    }

    /// Whether somebody must look although nothing was told.
    pub(super) fn must_poll(&self) -> bool {
        self.polls || self.folders.values().any(|folder| !folder.exists())
    }

    /// A process loads a file, or looks for it in vain; it was as `fingerprint` says.
    pub(super) fn add(&mut self, path: PathBuf, fingerprint: Fingerprint) {
        self.watch_folders_of(&path);
        self.before.remove(&path);
        self.files.insert(path, fingerprint);
    }

    fn watch_folders_of(&mut self, path: &Path) {
        let mut folders = Vec::new();
        folders_of(path, &mut folders, LINKS);
        for folder in folders {
            if !self.folders.contains_key(&folder) {
                self.watch(folder);
            }
        }
    }

    fn watch(&mut self, folder: PathBuf) {
        let found = Fingerprint::of(&folder);
        if found.exists()
            && let Some(watcher) = &mut self.watcher
            && watcher.watch(&folder, RecursiveMode::NonRecursive).is_err()
        {
            self.fall_back();
        }
        self.folders.insert(folder, found);
    }

    /// A new process starts: what it loads is what counts, if it comes so far.
    pub(super) fn begin(&mut self) {
        let files = std::mem::take(&mut self.files);
        self.before.extend(files);
    }

    /// The new process runs: what only the one before has loaded does not count any more.
    pub(super) fn settle(&mut self) {
        self.before.clear();
        let mut wanted = Vec::new();
        for path in self.files.keys() {
            folders_of(path, &mut wanted, LINKS);
        }
        let old: Vec<_> = self.folders.keys().cloned().collect();
        for folder in old.into_iter().filter(|folder| !wanted.contains(folder)) {
            self.folders.remove(&folder);
            if let Some(watcher) = &mut self.watcher {
                let _ = watcher.unwatch(&folder);
            }
        }
    }

    /// The new process has failed: files of both count.
    pub(super) fn fail(&mut self) {
        let files = std::mem::take(&mut self.files);
        self.files = std::mem::take(&mut self.before);
        self.files.extend(files);
    }

    /// The files that have changed since they were loaded. One that is gone has not: its editor may be
    /// about to write it anew, and without it nothing could run.
    pub(super) fn changed(&mut self) -> Vec<PathBuf> {
        self.look_at_folders();
        let mut changed = Vec::new();
        for files in [&mut self.files, &mut self.before] {
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

    /// A folder that was made anew is another one for the system, and that of a file that was missing may be there now.
    fn look_at_folders(&mut self) {
        let known = self.folders.iter();
        let anew = known.filter(|(folder, known)| !Fingerprint::of(folder).is_same_file(known));
        for folder in anew.map(|(folder, _)| folder.clone()).collect::<Vec<_>>() {
            if let Some(watcher) = &mut self.watcher {
                let _ = watcher.unwatch(&folder);
            }
            self.watch(folder);
        }
        let files = self.files.iter().chain(&self.before);
        let missing = files.filter(|(path, known)| {
            let folder = path.parent();
            !known.exists() && folder.is_some_and(|folder| !self.folders.contains_key(folder))
        });
        for path in missing.map(|(path, _)| path.clone()).collect::<Vec<_>>() {
            self.watch_folders_of(&path);
        }
    }
}

/// The folders in which something happens when the file at `path` becomes another one: its own, or the nearest that
/// is there, and those of each symbolic link on the way.
fn folders_of(path: &Path, folders: &mut Vec<PathBuf>, links: usize) {
    let mut note = |folder: &Path| {
        if !folders.iter().any(|known| known == folder) {
            folders.push(folder.to_path_buf());
        }
    };
    let mut parents = path.ancestors().skip(1);
    if let Some(parent) = parents.find(|folder| folder.is_dir()) {
        note(parent);
    }
    for part in path.ancestors() {
        let (Ok(target), Some(parent)) = (fs::read_link(part), part.parent()) else {
            continue;
        };
        note(parent);
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
