//! Queues of which the law is known: what a server with c slots must do with requests that come at
//! given moments, and what it does on average.

/// Slots that serve requests in the order in which they come, each request by one slot (Lindley's
/// recursion, for several servers by Kiefer and Wolfowitz, 1955).
#[derive(Clone, Debug)]
pub struct Slots {
    /// When each is free again, seconds.
    free: Vec<f64>,
    /// Times in which nothing is served, each from a moment to a later one.
    pauses: Vec<(f64, f64)>,
}

/// When a request is served, seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Served {
    /// It begins.
    pub begin: f64,
    /// It ends.
    pub end: f64,
}

impl Slots {
    /// This many slots, one at least, that are free from the beginning.
    pub fn new(count: u32) -> Slots {
        Slots { free: vec![f64::NEG_INFINITY; count.max(1) as usize], pauses: Vec::new() }
    }

    /// Serves nothing from one moment to another: what was begun takes longer by that.
    pub fn pause(&mut self, from: f64, to: f64) {
        self.pauses.push((from, to));
    }

    /// The next request: when it is served that comes at a moment and takes a time.
    pub fn serve(&mut self, arrival: f64, service: f64) -> Served {
        let mut first = 0;
        for (at, free) in self.free.iter().enumerate() {
            if *free < self.free[first] {
                first = at;
            }
        }
        let mut begin = arrival.max(self.free[first]);
        for (from, to) in &self.pauses {
            if (*from..*to).contains(&begin) {
                begin = *to;
            }
        }
        let mut end = begin + service;
        for (from, to) in &self.pauses {
            if *from > begin && *from < end {
                end += to - from;
            }
        }
        self.free[first] = end;
        Served { begin, end }
    }
}

/// Poisson arrivals at exponential servers (M/M/c), with the load of each below 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mmc {
    /// The share of requests that wait (Erlang's C).
    pub waits: f64,
    /// The mean wait, of all requests, seconds.
    pub mean_wait: f64,
    /// Of the wait of those that wait, which is exponential: the rate.
    pub rate: f64,
}

/// The stationary law of M/M/c; none where requests come faster than they can be served.
pub fn mmc(servers: u32, arrivals: f64, service: f64) -> Option<Mmc> {
    let count = f64::from(servers.max(1));
    let offered = arrivals * service;
    let rate = count / service - arrivals;
    (rate > 0.0 && arrivals > 0.0).then_some(())?;
    // Erlang's B by its recursion, which neither overflows nor cancels.
    let mut blocked = 1.0;
    for servers in 1..=servers.max(1) {
        blocked = offered * blocked / (f64::from(servers) + offered * blocked);
    }
    let load = offered / count;
    let waits = blocked / (1.0 - load * (1.0 - blocked));
    Some(Mmc { waits, mean_wait: waits / rate, rate })
}

impl Mmc {
    /// The share of requests that wait longer than a time.
    pub fn beyond(&self, time: f64) -> f64 {
        self.waits * (-self.rate * time).exp()
    }
}

/// The mean wait of Poisson arrivals at servers that all take the same time (M/D/c), seconds; none
/// where requests come faster than they can be served. By the number of requests that are there at
/// moments one service time apart (Crommelin, 1932): of those being served at the first none is
/// there at the second, and all others are.
pub fn mdc_mean_wait(servers: u32, arrivals: f64, service: f64) -> Option<f64> {
    let count = servers.max(1) as usize;
    let offered = arrivals * service;
    let load = offered / count as f64;
    (load > 0.0 && load < 0.995).then_some(())?;
    let poisson: Vec<f64> = {
        let mut list = vec![(-offered).exp()];
        let most = (offered + 12.0 * offered.sqrt() + 30.0) as usize;
        for at in 1..most {
            list.push(list[at - 1] * offered / at as f64);
        }
        list
    };
    // Beyond this many, less than 1e-12 of the time: the tail falls about as load^(2 n / c).
    let most = count * 2 + poisson.len() + (14.0 * count as f64 / -load.ln()) as usize;
    let mut there = vec![0.0; most];
    there[count.min(most - 1)] = 1.0;
    for _ in 0..100_000 {
        let mut next = vec![0.0; most];
        for (at, share) in there.iter().enumerate().filter(|(_, share)| **share > 1e-18) {
            let left = at.saturating_sub(count);
            for (new, arrive) in poisson.iter().enumerate() {
                next[(left + new).min(most - 1)] += share * arrive;
            }
        }
        let change: f64 = there.iter().zip(&next).map(|(old, new)| (old - new).abs()).sum();
        there = next;
        if change < 1e-13 {
            break;
        }
    }
    let waiting: f64 =
        there.iter().enumerate().map(|(at, share)| at.saturating_sub(count) as f64 * share).sum();
    Some(waiting / arrivals)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::random::{Purpose, Random};

    #[test]
    fn closed_forms_are_those_of_books() {
        let near =
            |one: f64, other: f64| assert!((one / other - 1.0).abs() < 1e-6, "{one} {other}");
        // M/M/1: rho / (mu - lambda). M/D/1: half of that (Pollaczek and Khinchine).
        near(mmc(1, 0.8, 1.0).expect("stable").mean_wait, 4.0);
        near(mdc_mean_wait(1, 0.8, 1.0).expect("stable"), 2.0);
        // M/M/2 at load 0.8: C = 2 rho^2 / (1 + rho).
        near(mmc(2, 1.6, 1.0).expect("stable").waits, 2.0 * 0.64 / 1.8);
        // M/D/2 at load 0.8 against M/M/2: Tijms, A First Course in Stochastic Models, table 9.6.1,
        // gives 0.5 (1 + (1 - 0.8) ..) by an approximation of 1 %.
        let share = mdc_mean_wait(2, 1.6, 1.0).expect("stable")
            / mmc(2, 1.6, 1.0).expect("stable").mean_wait;
        assert!((0.50..0.53).contains(&share), "{share}");
        assert!(mmc(2, 2.0, 1.0).is_none() && mdc_mean_wait(2, 2.0, 1.0).is_none());
    }

    #[test]
    fn the_recursion_meets_the_closed_forms() {
        let mut random = Random::new(5, 0, Purpose::Service);
        for (servers, load) in [(1, 0.6), (4, 0.8), (16, 0.9)] {
            let arrivals = f64::from(servers) * load;
            let mut waits = [0.0; 2];
            let (count, first) = (4_000_000, 50_000);
            let (mut now, mut fixed, mut chance) = (0.0, Slots::new(servers), Slots::new(servers));
            for number in 0..count {
                now += random.exponential() / arrivals;
                let all = [fixed.serve(now, 1.0), chance.serve(now, random.exponential())];
                if number >= first {
                    waits.iter_mut().zip(all).for_each(|(wait, one)| *wait += one.begin - now);
                }
            }
            let mean = waits.map(|wait| wait / f64::from(count - first));
            let theory = [
                mdc_mean_wait(servers, arrivals, 1.0).expect("stable"),
                mmc(servers, arrivals, 1.0).expect("stable").mean_wait,
            ];
            for (mean, theory) in mean.into_iter().zip(theory) {
                assert!((mean / theory - 1.0).abs() < 0.05, "{servers}: {mean}, {theory}");
            }
        }
    }

    #[test]
    fn a_pause_holds_up_whatever_it_meets() {
        let mut slots = Slots::new(1);
        slots.pause(10.0, 12.0);
        assert_eq!(slots.serve(9.0, 0.5), Served { begin: 9.0, end: 9.5 });
        assert_eq!(slots.serve(9.9, 0.5), Served { begin: 9.9, end: 12.4 });
        assert_eq!(slots.serve(10.5, 0.5), Served { begin: 12.4, end: 12.9 });
        let mut slots = Slots::new(2);
        slots.pause(10.0, 12.0);
        assert_eq!(slots.serve(11.0, 1.0), Served { begin: 12.0, end: 13.0 });
    }
}
