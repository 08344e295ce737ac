use super::*;

const TASKS: usize = 4;

struct Tried {
    circuit: Circuit,
    now: Instant,
}

impl Tried {
    fn new() -> Self {
        let policy = RetryPolicy {
            timeout: None,
            max_delay: Duration::from_secs(60),
        };
        Self {
            circuit: Circuit::new(TASKS, policy),
            now: Instant::now(),
        }
    }

    fn wait(&mut self, millis: u64) {
        self.now += Duration::from_millis(millis);
    }

    fn permit(&mut self, others: usize) -> Option<Permit> {
        self.circuit.permit(self.now, |_| true, || others)
    }

    fn refuse(&mut self, task: u32, lease: u32, lasts: Option<Duration>) -> Refused {
        let refusal = Refusal {
            task,
            leases: &[lease],
            cause: &"down".into(),
            lasts,
        };
        self.circuit.refused(&refusal, self.now, 1.0)
    }

    fn in_vain(&mut self, vain: Vain) -> Option<Cause> {
        self.circuit.in_vain(vain, &"busy".into(), self.now, 1.0)
    }

    fn bound(&mut self, open: usize) -> Option<usize> {
        let hand = InHand { open, untried: 0 };
        self.circuit.bound(Fetch::OfTopics, hand, self.now)
    }

    fn answer(&mut self, task: u32) -> Option<Duration> {
        self.circuit.answered(task, self.now)
    }

    /// The rest that follows when this probe fails.
    fn fail_probe(&mut self, lease: u32) -> u128 {
        let due = self.circuit.next_probe().unwrap();
        self.now = due;
        assert_eq!(self.permit(0), Some(Permit::Probe));
        self.circuit.probe(lease);
        self.refuse(0, lease, None);
        (self.circuit.next_probe().unwrap() - due).as_millis()
    }
}

#[test]
fn one_refusal_stops_all_and_one_probes_after_the_rest() {
    let mut tried = Tried::new();
    assert_eq!(tried.permit(3), Some(Permit::Put));
    assert!(tried.refuse(0, 1, None).has_opened);
    assert!(!tried.circuit.admits(2), "handed out, and not begun");
    tried.wait(299);
    assert_eq!(tried.permit(0), None);
    tried.wait(1);
    assert_eq!(tried.permit(0), Some(Permit::Probe));
    tried.circuit.probe(7);
    assert_eq!(tried.permit(0), None, "one alone");
    assert!(tried.circuit.admits(7) && !tried.circuit.admits(8));
}

#[test]
fn each_failed_probe_doubles_the_rest_up_to_its_maximum() {
    let mut tried = Tried::new();
    tried.refuse(0, 1, None);
    let rests: Vec<u128> = (2..12).map(|lease| tried.fail_probe(lease)).collect();
    assert_eq!(rests[..3], [600, 1200, 2400]);
    assert_eq!(rests[9], 60_000);
    let outage = tried.circuit.outage().unwrap();
    assert!(tried.now - outage.since > Duration::from_secs(60));
    assert_eq!(tried.circuit.outages(), 1, "all the same one");
}

#[test]
fn records_in_vain_are_an_outage_in_which_they_are_tried_on() {
    let mut tried = Tried::new();
    let told = tried.in_vain(Vain::Records(16)).unwrap();
    let words = "16 records and more failed in a row, none was delivered since: busy";
    assert_eq!(&*told, words);
    assert_eq!(tried.in_vain(Vain::Records(16)), None, "known");
    assert_eq!(tried.permit(3), Some(Permit::Put));
    assert!(tried.circuit.admits(1) && !tried.circuit.is_closed());
    assert_eq!(tried.circuit.outages(), 1);
    tried.wait(1000);
    let lasted = tried.circuit.not_in_vain(tried.now);
    assert_eq!(lasted, Some(Duration::from_secs(1)));
    assert!(tried.circuit.is_closed(), "at once");
}

/// A sink that fails all that is fetched, for so long: when others were let in,
/// and how many.
fn let_in(tried: &mut Tried, seconds: u64, open: &mut usize) -> Vec<(u64, usize)> {
    let mut let_in = Vec::new();
    for at in (0..seconds * 1000).step_by(100) {
        let bound = tried.bound(*open).unwrap_or_default();
        if bound > *open {
            let_in.push((at, bound - *open));
            *open = bound;
        }
        tried.wait(100);
    }
    let_in
}

#[test]
fn those_behind_many_that_fail_are_let_in_ever_later_and_twice_as_many_each_time() {
    let mut tried = Tried::new();
    tried.in_vain(Vain::Records(16));
    let mut open = 20;
    let first = let_in(&mut tried, 10, &mut open);
    let gentle = [
        (300, 1),
        (600, 2),
        (1200, 4),
        (2400, 8),
        (4800, 16),
        (9600, 32),
    ];
    assert_eq!(first, gentle);
    let_in(&mut tried, 127, &mut open);
    assert_eq!(open, 20 + 1023, "a thousand in minutes");
    tried.circuit.not_in_vain(tried.now);
    assert_eq!(tried.bound(open), None);
    tried.in_vain(Vain::Records(16));
    assert_eq!(let_in(&mut tried, 1, &mut open), gentle[..2], "anew");
}

#[test]
fn no_more_are_let_in_before_those_have_come_and_have_been_tried() {
    let mut tried = Tried::new();
    tried.in_vain(Vain::Records(16));
    tried.wait(300);
    assert_eq!(tried.bound(20), Some(21));
    tried.wait(3_600_000);
    assert_eq!(tried.bound(20), Some(21), "an hour without any");
    let hand = InHand {
        open: 21,
        untried: 1,
    };
    for _ in 0..2 {
        let bound = tried.circuit.bound(Fetch::OfTopics, hand, tried.now);
        assert_eq!(bound, Some(21), "it waits for a task");
        tried.wait(299);
    }
    assert_eq!(tried.bound(21), Some(21), "no rest since");
    tried.wait(1);
    assert_eq!(tried.bound(21), Some(23));
}

#[test]
fn behind_puts_that_hang_one_is_let_in_for_each_probe() {
    let mut tried = Tried::new();
    tried.in_vain(Vain::Puts(8));
    let lots: Vec<usize> = let_in(&mut tried, 10, &mut 20)
        .into_iter()
        .map(|(_, records)| records)
        .collect();
    assert_eq!(lots, [1; 6]);
}

#[test]
fn parked_records_are_let_in_beside_the_others_unless_a_put_tells_of_the_outage() {
    let mut tried = Tried::new();
    tried.in_vain(Vain::Records(16));
    tried.wait(300);
    assert_eq!(tried.bound(20), Some(21));
    let parked = |tried: &mut Tried, open| {
        let hand = InHand { open, untried: 0 };
        tried.circuit.bound(Fetch::OfParked, hand, tried.now)
    };
    assert_eq!(parked(&mut tried, 3), Some(4));
    tried.refuse(0, 1, None);
    assert_eq!(parked(&mut tried, 0), Some(0));
    assert_eq!(tried.bound(0), Some(1), "a probe needs one");
}

/// It hears of the delivery before the books do, which may enter one more
/// failure in between.
#[test]
fn what_a_task_hears_ends_no_outage_that_the_books_have_begun() {
    for vain in [Vain::Records(16), Vain::Puts(8)] {
        let mut tried = Tried::new();
        tried.in_vain(vain);
        assert_eq!(tried.answer(1), None);
        assert_eq!(tried.in_vain(vain), None, "the same outage");
        assert!(tried.circuit.not_in_vain(tried.now).is_some());
        assert_eq!(tried.circuit.outages(), 1);
        assert_eq!(tried.circuit.not_in_vain(tried.now), None, "told once");
        assert!(tried.permit(1).is_some());
    }
}

#[test]
fn puts_that_hang_leave_it_to_one_probe_and_failed_ones_keep_it_open() {
    let mut tried = Tried::new();
    tried.in_vain(Vain::Records(16));
    assert_eq!(tried.in_vain(Vain::Puts(8)), None, "the same outage");
    let busy = Cause::from("busy");
    let mut rests = Vec::new();
    for lease in 1..4 {
        let due = tried.circuit.next_probe().unwrap();
        tried.now = due;
        assert_eq!(tried.permit(0), Some(Permit::Probe));
        tried.circuit.probe(lease);
        tried.circuit.failed(&[lease + 7], &busy, tried.now, 1.0);
        assert_eq!(tried.circuit.next_probe(), None, "not its answer");
        tried.circuit.failed(&[lease], &busy, tried.now, 1.0);
        rests.push((tried.circuit.next_probe().unwrap() - due).as_millis());
    }
    assert_eq!(rests, [600, 1200, 2400]);
    assert_eq!(tried.circuit.outages(), 1);
    assert!(tried.circuit.not_in_vain(tried.now).is_some());
    assert!(tried.in_vain(Vain::Puts(8)).is_some(), "another one");
}

#[test]
fn a_sink_that_says_that_it_is_unavailable_is_probed_then() {
    let mut tried = Tried::new();
    tried.in_vain(Vain::Records(16));
    assert!(!tried.refuse(0, 1, None).has_opened, "the same outage");
    assert_eq!(tried.permit(0), None);
    assert_eq!(&*tried.circuit.outage().unwrap().cause, "down");
    assert_eq!(tried.circuit.outages(), 1);
}

#[test]
fn a_sink_that_says_so_once_and_then_only_that_records_fail_is_tried_on() {
    let mut tried = Tried::new();
    tried.in_vain(Vain::Records(16));
    tried.refuse(0, 1, None);
    assert_eq!(tried.in_vain(Vain::Records(16)), None, "the same outage");
    assert_eq!(tried.permit(0), None, "unavailable, by its own word");
    tried.fail_probe(2);
    tried.in_vain(Vain::Records(16));
    assert_eq!(tried.permit(0), None, "still, by its own word");
    tried.now = tried.circuit.next_probe().unwrap();
    assert_eq!(tried.permit(0), Some(Permit::Probe));
    tried.circuit.probe(3);
    tried.circuit.failed(&[3], &"busy".into(), tried.now, 1.0);
    tried.in_vain(Vain::Puts(8));
    assert_eq!(tried.permit(0), None, "puts that hang leave it to a probe");
    tried.in_vain(Vain::Records(16));
    assert_eq!(tried.permit(3), Some(Permit::Put));
    assert_eq!(tried.circuit.outages(), 1);
}

#[test]
fn nothing_is_fetched_until_all_in_hand_was_tried_in_vain() {
    let mut tried = Tried::new();
    assert_eq!(tried.bound(3), None);
    tried.refuse(0, 1, None);
    assert_eq!(tried.bound(3), Some(0));
    assert_eq!(tried.bound(0), Some(1), "a probe needs one");
    for (lease, bound) in [(2, 0), (3, 0), (4, 4)] {
        tried.fail_probe(lease);
        assert_eq!(tried.bound(3), Some(bound));
    }
    assert_eq!(tried.bound(4), Some(0), "one for each probe");
    tried.answer(1);
    assert_eq!(tried.bound(3), None);
}

#[test]
fn a_sink_that_says_for_how_long_is_probed_then() {
    let mut tried = Tried::new();
    tried.refuse(0, 1, Some(Duration::from_secs(7)));
    tried.wait(7_000);
    assert_eq!(tried.permit(0), None);
    tried.wait(300);
    assert_eq!(tried.permit(0), Some(Permit::Probe));
    tried.circuit.probe(2);
    tried.refuse(0, 2, Some(Duration::MAX));
    tried.wait(86_400_000);
    assert_eq!(tried.permit(0), None);
}

#[test]
fn tasks_come_back_one_more_with_each_answer() {
    let mut tried = Tried::new();
    tried.refuse(0, 1, None);
    tried.wait(300);
    tried.circuit.probe(2);
    assert_eq!(tried.answer(1), Some(Duration::from_millis(300)));
    let allowed = |tried: &mut Tried| {
        let may = |others: &usize| tried.permit(*others).is_some();
        (0..100).take_while(may).count()
    };
    assert_eq!(allowed(&mut tried), 2);
    assert_eq!(tried.answer(1), None, "told once");
    assert_eq!(allowed(&mut tried), 3);
    tried.answer(2);
    assert_eq!(allowed(&mut tried), 100, "closed");
}

#[test]
fn a_refusal_on_the_way_back_rests_longer_than_the_first() {
    let mut tried = Tried::new();
    tried.refuse(0, 1, None);
    tried.wait(300);
    tried.answer(1);
    assert!(tried.refuse(2, 5, None).has_opened);
    tried.wait(599);
    assert_eq!(tried.permit(0), None);
    tried.wait(1);
    assert_eq!(tried.permit(0), Some(Permit::Probe));
}

#[test]
fn others_answers_close_it_and_an_ill_task_rests_alone() {
    let mut tried = Tried::new();
    let mut rests = Vec::new();
    for round in 0..4 {
        let refused = tried.refuse(3, round, None);
        rests.push(refused.rest.as_millis());
        assert_eq!(refused.has_opened, round == 0);
        if round == 0 {
            assert_eq!(tried.permit(0), None);
            tried.answer(0);
        }
        assert_eq!(tried.permit(1), Some(Permit::Put), "the others go on");
    }
    assert_eq!(rests, [300, 600, 1200, 2400]);
    tried.answer(3);
    assert!(tried.refuse(3, 9, None).has_opened, "it was well again");
}

#[test]
fn those_who_were_under_way_when_it_opened_add_nothing() {
    let mut tried = Tried::new();
    tried.refuse(0, 1, None);
    for task in 1..4 {
        let refused = tried.refuse(task, 10 + task, None);
        assert_eq!(refused.rest, Duration::ZERO);
    }
    tried.wait(300);
    assert_eq!(tried.permit(0), Some(Permit::Probe));
    tried.circuit.probe(20);
    tried.refuse(1, 15, None);
    assert!(tried.circuit.admits(20), "not the probe's answer");
}

#[test]
fn a_probe_that_tells_nothing_or_dies_is_followed_by_another() {
    let mut tried = Tried::new();
    tried.refuse(0, 1, None);
    tried.wait(300);
    tried.circuit.probe(2);
    tried.circuit.undecided(&[2], tried.now, 1.0);
    assert_eq!(tried.permit(0), None, "not in a loop");
    tried.wait(300);
    assert_eq!(tried.permit(0), Some(Permit::Probe));
    tried.circuit.probe(3);
    let died = tried.circuit.permit(tried.now, |_| false, || 0);
    assert_eq!(died, Some(Permit::Probe));
}

#[test]
fn a_permit_that_comes_after_the_answer_is_no_probe() {
    let mut tried = Tried::new();
    tried.refuse(0, 1, None);
    tried.answer(1);
    tried.circuit.probe(2);
    assert!(tried.circuit.admits(3));
}
