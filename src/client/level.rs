//! One level of load: each request is sent by a thread that waits for its moment beforehand, so
//! that no other thread's work makes it late.

use super::{
    exchange::{Outcome, Prepared},
    http::{Client, Connections},
};
use fizeau_device::clock::{self, Moment};
use fizeau_projection::load::row::{Ending, Row};
use std::{
    io,
    num::NonZeroU64,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Condvar, Mutex, OnceLock, PoisonError,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst},
        mpsc::{self, Receiver, RecvTimeoutError, Sender},
    },
    thread,
    time::Duration,
};

/// When requests are sent.
#[derive(Clone, Debug)]
pub enum Schedule {
    /// An open loop: at these moments, seconds from the beginning of the level.
    Moments(Vec<f64>),
    /// A closed loop: as soon as one of these places is free, until this many seconds
    /// have passed since the first request that is measured.
    Places(u32, Option<f64>),
}

/// How far a level is.
#[derive(Clone, Copy, Debug, Default)]
pub struct State {
    /// Since the level began, seconds.
    pub elapsed: f64,
    /// Requests that were sent.
    pub sent: u64,
    /// Requests that are under way.
    pub under_way: u64,
}

/// Whoever keeps and shows what becomes of requests.
pub trait Watcher {
    /// A request has ended.
    ///
    /// # Errors
    /// Where its row cannot be kept: then the run ends.
    fn ended(&mut self, outcome: Outcome) -> io::Result<()>;

    /// Several times a second.
    fn passes(&mut self, state: State);
}

/// Threads that wait for the moments of coming requests: as many requests may be due at once
/// without one waiting for a thread to start.
const AHEAD: usize = 16;

/// Address space of a thread; TLS needs some 100 KiB of it.
const STACK: usize = 1 << 20;

/// How often the run is looked after while nothing ends.
const LOOK: Duration = Duration::from_millis(100);

/// A message to the thread that looks after the level.
enum Told {
    Ended(Box<Outcome>),
    /// Fewer threads wait than should.
    Thin,
}

struct Shared<'a> {
    client: &'a Client,
    connections: &'a Connections,
    work: Work<'a>,
    start: Moment,
    /// The request that the next free thread takes.
    next: AtomicU64,
    /// Threads that start, or wait for the moment of their next request.
    idle: AtomicUsize,
    /// When the first request that is measured was sent, in seconds since `start`.
    measured_from: OnceLock<f64>,
    sent: AtomicU64,
    ended: AtomicU64,
    /// No more requests are sent.
    is_over: Mutex<bool>,
    over: Condvar,
    /// Requests that are under way are given up.
    is_abandoned: AtomicBool,
}

/// The requests of a level.
#[derive(Clone, Copy, Debug)]
pub struct Work<'a> {
    /// Its place among the levels of the run.
    pub level: usize,
    /// The seed of the run, by which requests are named to the server.
    pub seed: u64,
    /// This many requests come first and are not measured.
    pub warmup: u64,
    /// The requests.
    pub requests: &'a [Prepared],
    /// When they are sent.
    pub schedule: &'a Schedule,
}

/// Sends the requests of a level and waits until all have ended. Where `interrupted` becomes true,
/// no more are sent.
///
/// # Errors
/// Those of the watcher, and where no thread can be started.
pub fn run(
    client: &Client,
    work: Work<'_>,
    interrupted: &AtomicBool,
    watcher: &mut dyn Watcher,
) -> io::Result<()> {
    let connections = client.connections();
    let shared = Shared {
        client,
        connections: &connections,
        work,
        start: clock::now(),
        next: AtomicU64::new(0),
        idle: AtomicUsize::new(0),
        measured_from: OnceLock::new(),
        sent: AtomicU64::new(0),
        ended: AtomicU64::new(0),
        is_over: Mutex::new(false),
        over: Condvar::new(),
        is_abandoned: AtomicBool::new(false),
    };
    thread::scope(|scope| {
        let (told, hear) = mpsc::channel();
        let begin = |told: &Sender<Told>| -> io::Result<()> {
            let (shared, told) = (&shared, told.clone());
            shared.idle.fetch_add(1, SeqCst);
            let named = thread::Builder::new().name("request".into()).stack_size(STACK);
            let begun = named.spawn_scoped(scope, move || shared.work(&told));
            if begun.is_err() {
                shared.idle.fetch_sub(1, SeqCst);
            }
            begun.map(drop)
        };
        let first = match work.schedule {
            Schedule::Moments(_) => AHEAD * 2,
            Schedule::Places(places, _) => *places as usize,
        };
        for _ in 0..first.min(work.requests.len()) {
            if let Err(error) = begin(&told) {
                shared.end();
                return Err(error);
            }
        }
        let result = shared.look_after((told, hear), &begin, interrupted, watcher);
        if result.is_err() {
            shared.give_up();
        }
        result
    })
}

impl Shared<'_> {
    fn look_after(
        &self,
        (told, hear): (Sender<Told>, Receiver<Told>),
        begin: &dyn Fn(&Sender<Told>) -> io::Result<()>,
        interrupted: &AtomicBool,
        watcher: &mut dyn Watcher,
    ) -> io::Result<()> {
        // Dropped when no more threads will be needed: the channel closes when the last has ended.
        let mut told = matches!(self.work.schedule, Schedule::Moments(_)).then_some(told);
        let mut draining: Option<Moment> = None;
        loop {
            match hear.recv_timeout(LOOK) {
                Ok(Told::Ended(outcome)) => watcher.ended(*outcome)?,
                Ok(Told::Thin) => {
                    let missing = AHEAD.saturating_sub(self.idle.load(SeqCst));
                    for told in told.iter().flat_map(|told| (0..missing).map(move |_| told)) {
                        // Where there is no thread more, requests are late, and their rows say so.
                        if begin(told).is_err() {
                            break;
                        }
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
            }
            let (sent, ended) = (self.sent.load(SeqCst), self.ended.load(SeqCst));
            let elapsed = self.start.elapsed().0;
            watcher.passes(State { elapsed, sent, under_way: sent.saturating_sub(ended) });
            if interrupted.load(SeqCst) {
                self.end();
            }
            let is_taken = self.next.load(SeqCst) >= self.work.requests.len() as u64;
            if is_taken || self.is_over() || self.has_lasted(elapsed) {
                told = None;
                // Threads that wait for a moment have yet to send.
                if self.idle.load(SeqCst) == 0 {
                    draining.get_or_insert_with(clock::now);
                }
            }
            if draining.is_some_and(|since| since.elapsed() > self.client.deadlines.drain) {
                self.give_up();
            }
        }
    }

    /// Whether a closed loop has measured for as long as it is to, at this many seconds since
    /// `start`.
    fn has_lasted(&self, elapsed: f64) -> bool {
        let Schedule::Places(_, Some(until)) = self.work.schedule else { return false };
        self.measured_from.get().is_some_and(|from| elapsed - from >= *until)
    }

    /// Lets no more requests be sent.
    fn end(&self) {
        *self.is_over.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.over.notify_all();
    }

    fn is_over(&self) -> bool {
        *self.is_over.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends what is under way.
    fn give_up(&self) {
        self.end();
        if !self.is_abandoned.swap(true, SeqCst) {
            self.connections.shut_down();
        }
    }

    /// What a thread does: takes the next request, waits for its moment, sends it, and again.
    fn work(&self, told: &Sender<Told>) {
        // Timers are 50 us late by default.
        let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
        while let Some((request, number, scheduled)) = self.take_next() {
            let idle = self.idle.fetch_sub(1, SeqCst) - 1;
            if idle < AHEAD && matches!(self.work.schedule, Schedule::Moments(_)) {
                let _ = told.send(Told::Thin);
            }
            self.sent.fetch_add(1, SeqCst);
            let outcome = self.exchange(request, number, scheduled);
            self.ended.fetch_add(1, SeqCst);
            self.idle.fetch_add(1, SeqCst);
            if told.send(Told::Ended(Box::new(outcome))).is_err() {
                break;
            }
        }
        self.idle.fetch_sub(1, SeqCst);
    }

    /// The next request when its moment has come, with its number and that moment; none where no
    /// more are sent.
    fn take_next(&self) -> Option<(&Prepared, u64, f64)> {
        let number = self.next.fetch_add(1, SeqCst);
        let request = self.work.requests.get(number as usize)?;
        match self.work.schedule {
            Schedule::Moments(moments) => {
                let moment = moments.get(number as usize).copied().unwrap_or_default();
                self.waits_for(moment).then_some((request, number, moment))
            }
            Schedule::Places(..) => {
                let now = self.start.elapsed().0;
                if number >= self.work.warmup {
                    self.measured_from.get_or_init(|| now);
                }
                let is_over = self.is_over() || self.has_lasted(now);
                (!is_over).then_some((request, number, now))
            }
        }
    }

    /// Waits for a moment; whether it has come, and requests are still sent.
    fn waits_for(&self, moment: f64) -> bool {
        let mut is_over = self.is_over.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if *is_over {
                return false;
            }
            let left = moment - self.start.elapsed().0;
            if left <= 0.0 {
                return true;
            }
            let left = Duration::from_secs_f64(left.min(DAY));
            is_over = match self.over.wait_timeout(is_over, left) {
                Ok((guard, _)) => guard,
                Err(poisoned) => poisoned.into_inner().0,
            };
        }
    }

    fn exchange(&self, request: &Prepared, number: u64, scheduled: f64) -> Outcome {
        let row = Row {
            level: self.work.level,
            number,
            is_warmup: number < self.work.warmup,
            scheduled,
            ..Row::default()
        };
        let id = request_id(self.work.seed, self.work.level, number);
        let (client, connections, start) = (self.client, self.connections, self.start);
        let sent = catch_unwind(AssertUnwindSafe(|| {
            client.exchange(connections, request, &id, start, row.clone())
        }));
        let mut outcome = sent.unwrap_or_else(|_| {
            let now = start.elapsed().0;
            let (asked_input, asked_output) = (request.input, request.output);
            let ending = Ending::ClientFailed;
            let failed = Row { sent: now, ended: now, asked_input, asked_output, ending, ..row };
            Outcome { row: failed, message: Some("the client panicked: a bug of fizeau".into()) }
        });
        if self.is_abandoned.load(SeqCst) && outcome.row.ending != Ending::Answered {
            outcome.row.ending = Ending::Abandoned;
        }
        outcome
    }
}

/// The name by which a request finds its way into a server's log (header `X-Request-Id`).
pub fn request_id(seed: u64, level: usize, number: u64) -> String {
    format!("fizeau-{seed}-{level}-{number}")
}

/// No wait is longer at once, in seconds.
const DAY: f64 = 86_400.0;

/// Lets this process open as many connections as the system permits: the default of many shells is
/// 1,024 files.
pub fn open_files_as_permitted() -> Option<u64> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
    getrlimit(Resource::Nofile).current
}
