//! Whatever the seed, who is struck can stand it.

use super::*;

fn setting(seed: u64) -> Setting {
    Setting::of(seed, Duration::from_secs(105), 1 + 2 * (seed as usize % 2))
}

fn all_schedules() -> impl Iterator<Item = Vec<Event>> {
    (0..300).map(|seed| schedule(&setting(seed)))
}

#[test]
fn a_seed_has_one_schedule_and_another_seed_another() {
    assert_eq!(schedule(&setting(7)), schedule(&setting(7)));
    assert_ne!(schedule(&setting(7)), schedule(&setting(9)));
}

#[test]
fn each_kind_of_blow_comes_in_every_schedule() {
    for events in all_schedules() {
        let has = |wanted: fn(&Deed) -> bool| events.iter().any(|event| wanted(&event.deed));
        assert!(has(|deed| matches!(deed, Deed::Kill(_))), "{events:?}");
        assert!(has(|deed| matches!(deed, Deed::Terminate(_))), "{events:?}");
        assert!(has(|deed| matches!(deed, Deed::Freeze(_))), "{events:?}");
        assert!(has(|deed| matches!(deed, Deed::Cut)), "{events:?}");
        assert!(has(|deed| matches!(deed, Deed::KillNode(_))), "{events:?}");
        assert!(has(|deed| matches!(deed, Deed::StopNode(_))), "{events:?}");
        assert!(has(|deed| matches!(deed, Deed::Outage(_))), "{events:?}");
        let restart = |deed: &Deed| matches!(deed, Deed::RestartTask { .. });
        assert!(has(restart), "{events:?}");
        assert!(has(|deed| matches!(deed, Deed::TakeFile(_))), "{events:?}");
        assert!(has(|deed| matches!(deed, Deed::SetLimit(_))), "{events:?}");
        assert!(has(|deed| matches!(deed, Deed::SetLock(_))), "{events:?}");
        let endpoint = |deed: &Deed| matches!(deed, Deed::Endpoint(..));
        assert!(has(endpoint), "{events:?}");
    }
}

#[test]
fn only_who_is_whole_is_struck_and_all_are_whole_at_the_end() {
    for events in all_schedules() {
        let mut ends_by = [None; WORKERS];
        for event in &events {
            let (worker, ends) = match event.deed {
                Deed::Kill(worker) | Deed::Terminate(worker) => (worker, Some("start")),
                Deed::Freeze(worker) => (worker, Some("thaw")),
                Deed::Start(worker) => {
                    assert_eq!(ends_by[worker], Some("start"), "{events:?}");
                    (worker, None)
                }
                Deed::Thaw(worker) => {
                    assert_eq!(ends_by[worker], Some("thaw"), "{events:?}");
                    (worker, None)
                }
                Deed::TakeFile(worker) => (worker, Some("give back")),
                Deed::GiveFileBack(worker) => {
                    assert_eq!(ends_by[worker], Some("give back"), "{events:?}");
                    (worker, None)
                }
                Deed::RestartTask { worker, task } => {
                    assert_eq!(ends_by[worker], None, "{events:?}");
                    assert!(task < TASKS);
                    continue;
                }
                Deed::Cut => {
                    assert_eq!(ends_by[VETERAN], None, "{events:?}");
                    continue;
                }
                _ => continue,
            };
            assert!(ends.is_none() || ends_by[worker].is_none(), "{events:?}");
            ends_by[worker] = ends;
            let whole = ends_by.iter().filter(|end| end.is_none()).count();
            assert!(whole > 0, "nobody is whole at {event}: {events:?}");
        }
        assert_eq!(ends_by, [None; WORKERS], "{events:?}");
    }
}

#[test]
fn all_is_whole_in_the_middle_and_nothing_strikes_there() {
    for events in all_schedules() {
        let calm = events.iter().position(|event| event.deed == Deed::Calm);
        let (before, after) = events.split_at(calm.unwrap());
        let from = after[0].at;
        let ended = before.iter().all(|event| match event.deed {
            Deed::Outage(records) => event.at + outage(records) <= from,
            Deed::Endpoint(mood, lasts) => event.at + lasts + mood.aftermath() <= from,
            _ => event.at <= from,
        });
        assert!(ended, "{events:?}");
        assert!(after[1].at >= from + STILL, "{events:?}");
        let count = |is: fn(&Deed) -> bool| before.iter().filter(|it| is(&it.deed)).count();
        let begun = count(|deed| {
            matches!(
                deed,
                Deed::Kill(_)
                    | Deed::Terminate(_)
                    | Deed::Freeze(_)
                    | Deed::KillNode(_)
                    | Deed::StopNode(_)
                    | Deed::TakeFile(_)
            )
        });
        let ended = count(|deed| {
            matches!(
                deed,
                Deed::Start(_) | Deed::Thaw(_) | Deed::StartNode(_) | Deed::GiveFileBack(_)
            )
        });
        assert!(begun > 0 && begun == ended, "{events:?}");
    }
}

#[test]
fn one_node_at_a_time_is_down_and_comes_back() {
    for events in all_schedules() {
        let mut down = None;
        for event in &events {
            match event.deed {
                Deed::KillNode(node) | Deed::StopNode(node) => {
                    assert_eq!(down.replace(node), None, "{events:?}");
                }
                Deed::StartNode(node) => assert_eq!(down.take(), Some(node), "{events:?}"),
                _ => {}
            }
        }
        assert_eq!(down, None, "{events:?}");
    }
}

/// Or the run would wait for them, and last longer than its schedule.
#[test]
fn brokers_have_the_time_to_come_back_before_anything_else_needs_them() {
    for events in all_schedules() {
        let mut back_at = Duration::ZERO;
        for event in &events {
            match event.deed {
                Deed::StartNode(_) => back_at = event.at + NODE_REST,
                Deed::KillNode(_) | Deed::StopNode(_) | Deed::SetLimit(_) | Deed::SetLock(_) => {
                    assert!(back_at <= event.at, "{event}: {events:?}");
                }
                _ => {}
            }
        }
    }
}

#[test]
fn what_is_set_on_the_group_is_set_back_while_all_brokers_are_there() {
    for events in all_schedules() {
        let (mut limit, mut lock, mut down) = (DELIVERY_LIMIT, LOCK, false);
        for event in &events {
            match event.deed {
                Deed::KillNode(_) | Deed::StopNode(_) => down = true,
                Deed::StartNode(_) => down = false,
                Deed::SetLimit(to) => limit = to,
                Deed::SetLock(to) => lock = to,
                Deed::Calm => assert!(!down, "{events:?}"),
                _ => continue,
            }
            let is_usual = limit == DELIVERY_LIMIT && lock == LOCK;
            assert!(is_usual || !down, "{event}: {events:?}");
        }
        assert_eq!((limit, lock), (DELIVERY_LIMIT, LOCK), "{events:?}");
    }
}

#[test]
fn the_endpoint_is_in_each_mood_in_a_long_run_but_what_uses_up_attempts() {
    for seed in 0..50 {
        let setting = Setting::of(seed, Duration::from_secs(300), 3);
        let events = schedule(&setting);
        let at_once = setting.retried == Retried::GivenBackAtOnce;
        for mood in Mood::ALL {
            let is_so = |it: &Event| matches!(it.deed, Deed::Endpoint(one, _) if one == mood);
            let wanted = !(at_once && mood.fails_again());
            assert_eq!(events.iter().any(is_so), wanted, "{mood:?}: {events:?}");
        }
    }
}

#[test]
fn records_wear_out_in_the_middle_where_all_give_them_back_and_nothing_strikes_until_it_is_over() {
    for seed in 0..50 {
        let setting = setting(seed).into_sinks("http").unwrap();
        let events = schedule(&setting);
        let at = |deed| events.iter().position(|event| event.deed == deed);
        let wears = at(Deed::WearOut(WORN)).zip(at(Deed::AwaitWorn));
        let at_once = setting.retried == Retried::GivenBackAtOnce;
        assert_eq!(wears.is_some(), at_once, "{events:?}");
        let Some((begin, end)) = wears else {
            continue;
        };
        assert_eq!(Some(begin), at(Deed::Calm).map(|calm| calm + 1));
        assert_eq!(end, begin + 1, "{events:?}");
        let next = events[end + 1].at - events[end].at;
        assert!(next >= Duration::from_secs(5), "{events:?}");
    }
}

#[test]
fn the_veteran_is_never_ended() {
    for event in all_schedules().flatten() {
        assert_ne!(event.deed, Deed::Kill(VETERAN));
        assert_ne!(event.deed, Deed::Terminate(VETERAN));
    }
}

/// Ten attempts are far more than one record can lose while it is open.
#[test]
fn few_blows_that_cost_an_attempt_come_within_ten_seconds() {
    for events in all_schedules() {
        let costly = |event: &&Event| {
            matches!(
                event.deed,
                Deed::Kill(_)
                    | Deed::Terminate(_)
                    | Deed::Freeze(_)
                    | Deed::Cut
                    | Deed::KillNode(_)
                    | Deed::StopNode(_)
            )
        };
        let times: Vec<Duration> = events.iter().filter(costly).map(|it| it.at).collect();
        for window in times.windows(6) {
            assert!(
                window[5] - window[0] > Duration::from_secs(10),
                "{events:?}"
            );
        }
    }
}
