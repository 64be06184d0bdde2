//! Watches that no collective hangs in silence: a thread beside each rank that looks how long its
//! rank has been waiting, and ends the run with words when that is too long.

mod neighbour_state;
pub mod neighbours;
pub mod shared_board;

use fizeau_device::{
    Pulse, Stage,
    clock::{self, Moment},
};
use fizeau_domain::case::{Collective, CollectivePoint};
use fizeau_domain::dtype::Dtype;
use fizeau_domain::units::{Bytes, Seconds};
use neighbour_state::{NeighbourStates, Seen};
use neighbours::Peer;
use shared_board::{Board, Ended};
use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

/// Polling interval of the watchdog thread.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Between collectives a rank may be at work alone (it compares what it received), and the others
/// wait: this many deadlines, as long as it shows progress, or is on another node, where
/// nobody here sees it.
const BETWEEN: f64 = 10.0;

/// How long to wait for a rank on this node whose process has exited.
const DEAD_MAX: Seconds = Seconds(2.0);

/// Device time-out, in deadlines. Longer than the watchdog's, because only the watchdog can name
/// the rank at fault.
pub const PATIENCE: f64 = BETWEEN + 2.0;

/// After waiting this many milliseconds, the watchdog checks which ranks are still alive.
const LOOK_UP_AFTER: u64 = 500;

/// A collective as it is enqueued.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Operation {
    /// Which.
    pub collective: Collective,
    /// Element type.
    pub dtype: Dtype,
    /// Its size.
    pub message: Bytes,
}

/// An exchange of bytes between two ranks.
pub fn pairwise(message: Bytes) -> Operation {
    Operation { collective: Collective::SendReceive, dtype: Dtype::Int8, message }
}

/// The blocking call that a rank is in.
#[derive(Clone, Copy, PartialEq)]
enum Wait {
    /// A collective that is measured.
    In(Operation),
    /// Measured collectives that a device works off by itself: any of those enqueued last.
    Queued(Operation),
    /// The engine's own, after that collective if there was one.
    After(Option<Operation>),
    /// For the engine to make a world of all ranks, which takes the time it takes.
    Joining,
}

impl Wait {
    fn operation(self) -> Option<Operation> {
        match self {
            Wait::In(operation) | Wait::Queued(operation) => Some(operation),
            Wait::After(operation) => operation,
            Wait::Joining => None,
        }
    }
}

struct State {
    rank: u32,
    peers: Vec<Peer>,
    /// None where ranks share no memory.
    board: Option<Board>,
    origin: Moment,
    /// Milliseconds since `origin` at which the wait began, plus one; zero while there is none.
    since: AtomicU64,
    /// Iterations entered of the operation enqueued last.
    iteration: AtomicU64,
    wait: Mutex<Wait>,
    /// What this rank itself has seen to go wrong, for all to end.
    failed: Mutex<Option<String>>,
    looks: AtomicBool,
    over: AtomicBool,
}

/// What a rank tells its watchdog.
pub struct Watchdog {
    state: Arc<State>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Asks the engine for an error that it met in the background.
pub type Ask = Box<dyn Fn() -> Option<String> + Send>;

/// What the watchdog asks besides the board.
#[derive(Default)]
pub struct Asked {
    /// The engine, at each look.
    pub error: Option<Ask>,
    /// The device, after half of the deadline.
    pub pulse: Option<Pulse>,
}

/// Called once, from the watching thread, with what is to be said. It ends the process.
pub type OnHang = Box<dyn FnOnce(String, Option<CollectivePoint>) + Send>;

impl Watchdog {
    /// A watchdog that does not look yet.
    pub fn new(rank: u32, peers: Vec<Peer>, board: Option<Board>) -> Watchdog {
        let state = State {
            rank,
            peers,
            board,
            origin: clock::now(),
            since: AtomicU64::new(0),
            iteration: AtomicU64::new(0),
            wait: Mutex::new(Wait::After(None)),
            failed: Mutex::new(None),
            looks: AtomicBool::new(false),
            over: AtomicBool::new(false),
        };
        Watchdog { state: Arc::new(state) }
    }

    /// Starts to look, and to ask the engine whether anything went wrong in the background.
    ///
    /// # Errors
    /// Where there can be no thread.
    pub fn start(&self, deadline: Seconds, asked: Asked, on_hang: OnHang) -> std::io::Result<()> {
        let state = Arc::clone(&self.state);
        state.looks.store(true, Ordering::Release);
        if let Some(board) = &state.board {
            board.beat(state.me().slot);
        }
        let look = move || state.look(deadline, asked, on_hang);
        thread::Builder::new().name("watch".into()).spawn(look)?;
        Ok(())
    }

    /// This rank makes progress with something that it does alone.
    #[inline]
    pub fn works(&self) {
        if let Some(board) = &self.state.board {
            board.work(self.state.me().slot);
        }
    }

    /// Makes a world of all ranks.
    pub fn joining<T>(&self, run: impl FnOnce() -> T) -> T {
        self.wait(Wait::Joining, run)
    }

    /// Collectives are on the device from here until [`Watchdog::completed`].
    pub fn queued<T>(&self, operation: Operation, enqueue: impl FnOnce() -> T) -> T {
        self.state.iteration.store(0, Ordering::Relaxed);
        self.state.begin(Wait::Queued(operation));
        enqueue()
    }

    /// What was enqueued is done.
    pub fn completed(&self) {
        self.state.since.store(0, Ordering::Release);
    }

    /// This rank cannot continue, and the others would wait for it: the watchdog ends the run. The
    /// call returns only if no watchdog runs.
    pub fn fail(&self, why: String) {
        if !self.state.looks.load(Ordering::Acquire) {
            return;
        }
        *lock(&self.state.failed) = Some(why);
        loop {
            thread::sleep(LOOK_EVERY);
        }
    }

    /// Runs a collective that is measured.
    pub fn operation<T>(&self, operation: Operation, run: impl FnOnce() -> T) -> T {
        self.state.iteration.store(0, Ordering::Relaxed);
        self.wait(Wait::In(operation), run)
    }

    /// Enters one iteration of it.
    #[inline]
    pub fn enter(&self) {
        let state = &*self.state;
        state.iteration.fetch_add(1, Ordering::Relaxed);
        if let Some(board) = &state.board {
            board.enter(state.me().slot);
        }
    }

    /// Runs a collective of the engine's own.
    pub fn control<T>(&self, run: impl FnOnce() -> T) -> T {
        let last = lock(&self.state.wait).operation();
        if let Some(board) = &self.state.board {
            board.enter(self.state.me().slot);
        }
        self.wait(Wait::After(last), run)
    }

    fn wait<T>(&self, wait: Wait, run: impl FnOnce() -> T) -> T {
        self.state.begin(wait);
        let result = run();
        self.completed();
        result
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.state.over.store(true, Ordering::Release);
    }
}

impl State {
    fn me(&self) -> &Peer {
        &self.peers[self.rank as usize]
    }

    fn begin(&self, wait: Wait) {
        *lock(&self.wait) = wait;
        self.since.store(self.now() + 1, Ordering::Release);
    }

    fn now(&self) -> u64 {
        (self.origin.elapsed().0 * 1e3) as u64
    }

    /// Those whose slots are on this board.
    fn neighbours(&self) -> impl Iterator<Item = (usize, &Peer)> {
        self.peers.iter().enumerate().filter(|(_, peer)| peer.host == self.me().host)
    }

    fn look(self: Arc<State>, deadline: Seconds, asked: Asked, on_hang: OnHang) {
        let Asked { error: engine, pulse } = asked;
        // The wait in which the device was asked.
        let mut asked_in = 0;
        let mut signs = NeighbourStates::new(self.neighbours(), self.now());
        let limit = (deadline.0 * 1e3) as u64;
        let (mut last, mut resumed) = (self.now(), 0);
        loop {
            thread::sleep(LOOK_EVERY);
            if self.over.load(Ordering::Acquire) {
                return;
            }
            let now = self.now();
            if now - last > limit / 2 {
                // This process itself was stopped (a whole job is, by Ctrl-Z): what it did not see
                // meanwhile is nobody's fault, and waits begin anew.
                resumed = now;
                signs = NeighbourStates::new(self.neighbours(), now);
            }
            last = now;
            if let Some(board) = &self.board {
                board.beat(self.me().slot);
            }
            signs.read(self.board.as_ref(), now);
            let since = self.since.load(Ordering::Acquire);
            let waited = if since == 0 { 0 } else { now.saturating_sub((since - 1).max(resumed)) };
            if let Some(pulse) = &pulse
                && waited > limit / 2
                && since != asked_in
            {
                asked_in = since;
                self.ask(pulse, since);
            }
            // Processes are looked up while a rank waits, and not beside what is measured.
            let seen =
                if waited > LOOK_UP_AFTER { signs.seen(now, limit) } else { Seen::default() };
            let ended = self.board.as_ref().and_then(Board::ended);
            let failed = lock(&self.failed).take();
            let failed = failed.or_else(|| engine.as_ref().and_then(|ask| ask()));
            let cause = match failed {
                Some(why) => (Ended::Told, why),
                None => match (self.hangs(waited, limit, &seen), ended) {
                    (Some(limit), _) => {
                        let limit = Seconds(limit as f64 / 1e3);
                        (Ended::Late, format!("no answer within {limit}"))
                    }
                    (None, Some(ended)) => (ended, "another rank of this node has given up".into()),
                    (None, None) => continue,
                },
            };
            if let Some(board) = &self.board {
                board.end(self.me().slot, cause.0);
            }
            let (said, point) = self.say(cause, waited, &seen);
            on_hang(said, point);
            return;
        }
    }

    /// Asks the device on a thread of its own: a driver may not come back from a device that does
    /// not answer. What it answers to a wait that is over counts for nothing.
    fn ask(self: &Arc<State>, pulse: &Pulse, since: u64) {
        let Some(board) = &self.board else { return };
        board.set_stage(self.me().slot, Stage::Silent);
        let (state, pulse) = (Arc::clone(self), Arc::clone(pulse));
        let asks = move || {
            let stage = pulse();
            if let Some(board) = &state.board
                && state.since.load(Ordering::Acquire) == since
            {
                board.set_stage(state.me().slot, stage);
            }
        };
        if thread::Builder::new().name("pulse".into()).spawn(asks).is_err() {
            board.set_stage(self.me().slot, Stage::Unknown);
        }
    }

    /// After what limit this wait is too long, if it is, in milliseconds.
    fn hangs(&self, waited: u64, limit: u64, seen: &Seen) -> Option<u64> {
        let dead_max = limit.min((DEAD_MAX.0 * 1e3) as u64);
        if waited > dead_max && !seen.dead.is_empty() {
            return Some(dead_max);
        }
        let is_late = waited > limit;
        let hangs = match *lock(&self.wait) {
            Wait::In(_) | Wait::Queued(_) => is_late,
            // The engine has a limit of its own, which names nobody.
            Wait::Joining => is_late && seen.silent.iter().any(|&rank| self.is_stopped(rank)),
            Wait::After(_) if is_late => {
                !seen.silent.is_empty()
                    || self.nobody_gets_on(seen)
                    || waited as f64 > BETWEEN * limit as f64
            }
            Wait::After(_) => false,
        };
        hangs.then_some(limit)
    }

    fn is_stopped(&self, rank: usize) -> bool {
        neighbours::is_stopped(self.peers[rank].process)
    }

    /// Whether no rank that has not entered makes progress: where all have entered, all
    /// ranks have to be here, since what those on other nodes do is not seen.
    fn nobody_gets_on(&self, seen: &Seen) -> bool {
        let Some(board) = &self.board else { return false };
        let entered = |peer: &Peer| board.entered(peer.slot);
        let most = self.neighbours().map(|(_, peer)| entered(peer)).max().unwrap_or(0);
        let mut behind = self.neighbours().filter(|(_, peer)| entered(peer) < most).peekable();
        match behind.peek() {
            None => self.neighbours().count() == self.peers.len(),
            Some(_) => behind.any(|(rank, _)| seen.idle.contains(&rank)),
        }
    }

    /// What there is to say: who, where, in what, and for how long.
    fn say(
        &self,
        (cause, why): (Ended, String),
        waited: u64,
        seen: &Seen,
    ) -> (String, Option<CollectivePoint>) {
        let iteration = self.iteration.load(Ordering::Relaxed);
        let wait = *lock(&self.wait);
        let (place, numbers) = match wait {
            Wait::In(_) => ("in", format!("{iteration}")),
            Wait::Queued(_) => ("in", format!("1 to {iteration} of its batch")),
            Wait::After(_) => ("after", format!("{iteration}")),
            Wait::Joining => ("for all ranks to join, before", String::new()),
        };
        let operation = wait.operation();
        let what = operation.map_or("the first exchange".into(), |of| {
            format!("{} {} {}, iteration {numbers}", of.collective, of.dtype, of.message)
        });
        let place = if operation.is_none() && place == "after" { "in" } else { place };
        let waited = Seconds(waited as f64 / 1e3);
        let mut text =
            format!("{why}: {} waited {waited} {place} {what}", self.name(self.rank as usize));
        let culprits = self.culprits(seen);
        if culprits.is_empty() && cause == Ended::Late {
            text += match &self.board {
                Some(_) => {
                    "; every rank of this node has entered it, and every device that could be \
                     asked answers and is in it, so look at the other nodes' messages, or at the \
                     network"
                }
                None => "; ranks of this node share no memory that would tell how far each is",
            };
        }
        for (rank, why) in culprits {
            text += &format!("; {} {why}", self.name(rank));
        }
        let ranks = self.peers.len() as u32;
        let point =
            operation.map(|of| CollectivePoint::new(of.collective, of.dtype, of.message, ranks));
        (text, point)
    }

    fn name(&self, rank: usize) -> String {
        let Peer { host, device, process, .. } = &self.peers[rank];
        format!("rank {rank} on {host} ({device}, process {process})")
    }

    /// Who of this node keeps the others waiting, and how that shows.
    fn culprits(&self, seen: &Seen) -> Vec<(usize, String)> {
        let is_gone = |rank: usize, peer: &Peer| {
            seen.dead.contains(&rank) || neighbours::is_gone(peer.process)
        };
        // Where a process is seen to be gone, one that is silent and runs may be waiting for it.
        let some_are = self.neighbours().any(|(rank, peer)| is_gone(rank, peer));
        let why_gone = "does not run any more (stopped, or killed)";
        let Some(board) = &self.board else { return Vec::new() };
        let entered = |peer: &Peer| board.entered(peer.slot);
        let most = self.neighbours().map(|(_, peer)| entered(peer)).max().unwrap_or(0);
        let mut culprits = Vec::new();
        for (rank, peer) in self.neighbours() {
            let behind = most - entered(peer);
            // It has told what it knows and ended in order, which the others have yet to see.
            let has_told = board.has_ended(peer.slot);
            if has_told && neighbours::is_dead(peer.process) {
                continue;
            }
            if is_gone(rank, peer) || (!some_are && seen.silent.contains(&rank)) {
                culprits.push((rank, why_gone.into()));
            } else if behind > 0 {
                culprits.push((rank, format!("has not entered it ({behind} exchanges behind)")));
            }
        }
        if culprits.is_empty() {
            let stages = self.neighbours().map(|(rank, peer)| (rank, board.stage(peer.slot)));
            culprits = behind(&stages.collect::<Vec<_>>());
        }
        culprits
    }
}

/// Whose devices keep the others waiting where all ranks have entered: those that do not answer;
/// else those that are not as far as another.
fn behind(stages: &[(usize, Stage)]) -> Vec<(usize, String)> {
    let is_any = |stages_of: &[Stage]| stages.iter().any(|(_, stage)| stages_of.contains(stage));
    let (stage, why) = if is_any(&[Stage::Silent]) {
        (Stage::Silent, "has entered it, and its device does not answer")
    } else if is_any(&[Stage::NotBegun]) && is_any(&[Stage::Begun, Stage::Ended]) {
        (Stage::NotBegun, "has entered it, and its device has not begun it as others have")
    } else if is_any(&[Stage::Begun]) && is_any(&[Stage::Ended]) {
        (Stage::Begun, "has entered it, and its device has not ended it as others have")
    } else {
        return Vec::new();
    };
    let found = stages.iter().filter(|(_, found)| *found == stage);
    found.map(|&(rank, _)| (rank, why.to_owned())).collect()
}

#[cfg(test)]
mod tests {
    use super::shared_board::BoardFile;
    use super::*;
    use rustix::process::{Pid, Signal, kill_process};
    use std::sync::mpsc;

    fn peers() -> Vec<Peer> {
        let peer = |rank: usize| Peer {
            host: "here".into(),
            device: "a CPU".into(),
            process: std::process::id(),
            slot: rank,
        };
        (0..3).map(peer).collect()
    }

    #[test]
    fn a_rank_that_stays_away_is_named() {
        let file = BoardFile::create().expect("a file");
        let board = || Board::open(file.name(), 3).expect("the board");
        let (watch, others) = (Watchdog::new(0, peers(), Some(board())), board());
        let (send, receive) = mpsc::channel();
        let told = send.clone();
        let hang: OnHang = Box::new(move |said, point| {
            told.send((said, point)).expect("the test listens");
        });
        watch.start(Seconds(0.4), Asked::default(), hang).expect("a thread");
        let operation = Operation {
            collective: Collective::AllReduce,
            dtype: Dtype::F32,
            message: Bytes(4096),
        };
        let (said, point) = watch.operation(operation, || {
            watch.enter();
            others.enter(2);
            // Rank 2 lives; rank 1 does too, but never enters.
            loop {
                others.beat(1);
                others.beat(2);
                if let Ok(said) = receive.recv_timeout(Duration::from_millis(20)) {
                    return said;
                }
            }
        });
        assert!(said.contains("rank 0 on here (a CPU, process "), "{said}");
        assert!(said.contains("in all_reduce f32 4 KiB, iteration 1"), "{said}");
        assert!(said.contains("rank 1 on here (a CPU, process "), "{said}");
        assert!(said.contains(") has not entered it (1 exchanges behind)"), "{said}");
        assert!(!said.contains("rank 2"), "{said}");
        assert_eq!(point.map(|point| point.ranks), Some(3));
        assert_eq!(others.ended(), Some(Ended::Late), "the others are told");
    }

    #[test]
    fn a_rank_that_is_stopped_while_others_join_is_named() {
        let mut stopped = std::process::Command::new("sleep").arg("600").spawn().expect("sleep");
        let process = Pid::from_child(&stopped);
        kill_process(process, Signal::STOP).expect("it is there");
        let mut peers = peers();
        peers[1].process = stopped.id();
        let file = BoardFile::create().expect("a file");
        let board = || Board::open(file.name(), 3).expect("the board");
        let (watch, others) = (Watchdog::new(0, peers, Some(board())), board());
        let (send, receive) = mpsc::channel();
        let hang: OnHang = Box::new(move |said, _| drop(send.send(said)));
        watch.start(Seconds(0.4), Asked::default(), hang).expect("a thread");
        others.beat(1);
        let said = watch.joining(|| {
            loop {
                others.beat(2);
                if let Ok(said) = receive.recv_timeout(Duration::from_millis(20)) {
                    return said;
                }
            }
        });
        stopped.kill().and_then(|()| stopped.wait()).expect("it ends");
        assert!(said.contains("for all ranks to join"), "{said}");
        let culprit = format!("process {}) does not run any more", process.as_raw_nonzero());
        assert!(said.contains(&culprit) && said.matches("any more").count() == 1, "{said}");
    }

    #[test]
    fn a_device_that_is_behind_is_told_from_those_that_wait_for_it() {
        use Stage::{Begun, Ended, NotBegun, Silent, Unknown};
        let named = |stages: [Stage; 3]| -> Vec<usize> {
            let stages: Vec<_> = stages.into_iter().enumerate().collect();
            behind(&stages).into_iter().map(|(rank, _)| rank).collect()
        };
        assert_eq!(named([Begun, Silent, Begun]), [1]);
        assert_eq!(named([Begun, Begun, NotBegun]), [2]);
        assert_eq!(named([Ended, Begun, Ended]), [1]);
        assert_eq!(named([Ended, Begun, Unknown]), [1]);
        // Each waits for the others, or nobody could be asked.
        for stages in [[Begun; 3], [NotBegun; 3], [Unknown; 3], [Begun, Unknown, Begun]] {
            assert!(named(stages).is_empty(), "{stages:?}");
        }
    }

    #[test]
    fn what_the_engine_met_in_the_background_ends_the_wait_before_its_deadline() {
        let watch = Watchdog::new(1, peers(), None);
        let (send, receive) = mpsc::channel();
        let hang: OnHang = Box::new(move |said, point| drop(send.send((said, point))));
        let ask: Ask = Box::new(|| Some("remote process exited".into()));
        let operation = Operation {
            collective: Collective::AllToAll,
            dtype: Dtype::Bf16,
            message: Bytes(1 << 20),
        };
        watch.queued(operation, || (0..20).for_each(|_| watch.enter()));
        watch
            .start(Seconds(600.0), Asked { error: Some(ask), pulse: None }, hang)
            .expect("a thread");
        let (said, point) = receive.recv_timeout(Duration::from_secs(60)).expect("it is said");
        assert!(said.starts_with("remote process exited: rank 1 on here"), "{said}");
        assert!(said.contains("in all_to_all bf16 1 MiB, iteration 1 to 20 of its"), "{said}");
        assert_eq!(point.map(|point| point.collective), Some(Collective::AllToAll));
    }

    #[test]
    fn nobody_is_named_while_all_goes_well() {
        let watch = Watchdog::new(0, peers(), None);
        let (send, receive) = mpsc::channel();
        let hang: OnHang = Box::new(move |said, _| drop(send.send(said)));
        watch.start(Seconds(0.2), Asked::default(), hang).expect("a thread");
        for _ in 0..5 {
            watch.control(|| thread::sleep(Duration::from_millis(100)));
        }
        drop(watch);
        assert!(receive.recv_timeout(Duration::from_millis(300)).is_err());
    }
}
