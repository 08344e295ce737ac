//! The verdict goes red for each promise that is broken.

use super::*;
use crate::chaos::footprint::Credit;
use crate::chaos::setting::SinkKind::{File, Http, Null};

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

const fn delivery(worker: usize, at: u64) -> Delivery {
    Delivery {
        worker,
        from: ms(at - 20),
        until: ms(at),
    }
}

fn blow(worker: Option<usize>, from: u64, until: u64) -> Blow {
    Blow {
        what: "test".to_owned(),
        worker,
        from: ms(from),
        until: ms(until),
        in_flight: 2,
    }
}

const CALM: Stretch = Stretch {
    from: ms(50_000),
    until: ms(66_000),
};

/// Ten records, the last refused, in a minute without a blow.
fn kept() -> Evidence {
    let log: Vec<Logged> = (0..10)
        .map(|number| Logged {
            id: format!("id-{number}"),
            place: (0, number),
            fate: if number == 9 {
                Fate::Reject
            } else {
                Fate::Plain
            },
        })
        .collect();
    let delivered = log.iter().filter(|record| record.fate != Fate::Reject);
    let deliveries = delivered.map(|record| {
        let at = if record.place.1 < 4 { 30_000 } else { 60_000 };
        (record.id.clone(), vec![delivery(0, at)])
    });
    Evidence {
        limits: Limits {
            workers: 3,
            in_flight: 2,
            beyond_window: 1,
            delivery_count: 10,
        },
        produced: 10,
        put_aside: PutAside::Rejected,
        sinks: [Null, Http, File],
        letters: BTreeMap::new(),
        parkings: BTreeMap::new(),
        broker_on_parked: vec![BrokerBooks::default()],
        deliveries: deliveries.collect(),
        log,
        blows: Vec::new(),
        outages: Vec::new(),
        calm: Some(CALM),
        broker: BrokerBooks {
            archived: [(0, 9)].into(),
            highest_delivery_count: 3,
            ends: [(0, 10)].into(),
        },
        footprints: vec![Footprint {
            worker: 2,
            life: 0,
            memory: vec![
                (ms(0), 50 * MIB),
                (ms(30_000), 52 * MIB),
                (ms(60_000), 51 * MIB),
            ],
            credit: vec![Credit {
                in_flight: 2,
                window: 1,
            }],
        }],
        troubles: Vec::new(),
    }
}

fn faults(change: impl FnOnce(&mut Evidence)) -> String {
    let mut evidence = kept();
    change(&mut evidence);
    evidence.faults().join("\n")
}

fn again(evidence: &mut Evidence, id: &str, deliveries: [Delivery; 2]) {
    evidence.deliveries.insert(id.to_owned(), deliveries.into());
}

#[test]
fn kept_promises_have_no_fault() {
    assert_eq!(faults(|_| {}), "");
}

#[test]
fn a_lost_id_is_named_with_its_place() {
    let told = faults(|evidence| {
        evidence.deliveries.remove("id-4");
    });
    assert_eq!(told, "1 lost: id-4 (plain) at 0@4");
}

#[test]
fn an_id_that_nobody_produced_is_named() {
    let told = faults(|evidence| {
        let ghost = vec![delivery(1, 100)];
        evidence.deliveries.insert("ghost".to_owned(), ghost);
    });
    assert_eq!(told, "1 delivered, but never produced: ghost");
}

#[test]
fn a_confirmed_record_that_the_log_has_not_is_a_fault() {
    let told = faults(|evidence| evidence.produced = 11);
    assert!(told.contains("11 were produced"), "{told}");
}

#[test]
fn a_record_archived_against_the_plan_is_named_even_if_it_was_delivered() {
    let told = faults(|evidence| {
        evidence.broker.archived.insert((0, 2));
    });
    assert_eq!(told, "1 archived by the broker: id-2 (plain) at 0@2");
}

#[test]
fn a_refused_record_must_be_put_aside_and_not_delivered() {
    let told = faults(|evidence| evidence.broker.archived.clear());
    assert!(told.contains("id-9 (reject) at 0@9"), "{told}");
    let told = faults(|evidence| {
        let refused = vec![delivery(0, 100)];
        evidence.deliveries.insert("id-9".to_owned(), refused);
    });
    assert!(told.contains("though the sink refused"), "{told}");
}

#[test]
fn the_last_attempt_is_a_fault() {
    let told = faults(|evidence| evidence.broker.highest_delivery_count = 10);
    assert_eq!(told, "a record was delivered 10 times of 10");
}

#[test]
fn records_that_are_worn_out_come_to_their_last_attempt() {
    let worn = |highest| {
        faults(|evidence| {
            evidence.log[0].fate = Fate::Worn;
            evidence.broker.highest_delivery_count = highest;
        })
    };
    assert_eq!([9, 10].map(worn), ["", ""]);
    let told = worn(8);
    assert!(told.contains("but to 8 of 10"), "{told}");
}

#[test]
fn books_that_do_not_reach_the_end_of_a_partition_are_a_fault() {
    let told = faults(|evidence| evidence.broker.ends = [(0, 9)].into());
    assert!(told.contains("partition 0 up to Some(9)"), "{told}");
    let told = faults(|evidence| evidence.log[3].place = (1, 0));
    assert!(told.contains("partition 1 up to None"), "{told}");
    let told = faults(|evidence| evidence.broker = BrokerBooks::default());
    assert!(told.contains("partition 0 up to None"), "{told}");
}

#[test]
fn a_blow_that_no_delivery_count_tells_of_is_a_fault() {
    let counted = |highest, in_flight| {
        faults(|evidence| {
            evidence.broker.highest_delivery_count = highest;
            evidence.blows.push(Blow {
                in_flight,
                ..blow(Some(0), 20_100, 20_100)
            });
        })
    };
    let told = counted(1, 2);
    assert!(told.contains("1 delivery of each"), "{told}");
    assert_eq!(counted(2, 2), "");
    assert_eq!(counted(1, 0), "");
}

#[test]
fn a_duplicate_without_a_blow_is_unexplained() {
    let twice = [delivery(0, 20_000), delivery(1, 21_000)];
    let told = faults(|evidence| again(evidence, "id-1", twice));
    assert!(
        told.contains("1 delivered again without a cause: id-1"),
        "{told}"
    );
}

#[test]
fn what_was_in_flight_at_its_workers_blow_is_explained() {
    let twice = [delivery(0, 20_000), delivery(1, 21_000)];
    let struck = |worker, from, until| {
        faults(|evidence| {
            again(evidence, "id-1", twice);
            evidence.blows.push(blow(worker, from, until));
        })
    };
    assert_eq!(struck(Some(0), 20_100, 20_100), "", "just after");
    assert_eq!(struck(None, 19_000, 25_000), "");
    assert_ne!(struck(Some(2), 20_100, 20_100), "", "another worker");
    assert_ne!(struck(Some(0), 21_500, 21_500), "", "after both");
    assert_ne!(struck(Some(0), 2_000, 3_000), "", "long before");
}

#[test]
fn what_was_delivered_long_before_a_blow_was_not_in_flight() {
    let told = faults(|evidence| {
        again(evidence, "id-1", [delivery(0, 20_000), delivery(1, 41_000)]);
        evidence.blows.push(blow(Some(0), 40_000, 40_000));
    });
    assert!(told.contains("without a cause"), "{told}");
}

#[test]
fn a_late_result_of_a_frozen_worker_is_explained_until_its_puts_have_ended() {
    let late = |at| {
        faults(|evidence| {
            again(evidence, "id-1", [delivery(0, 20_000), delivery(1, at)]);
            evidence.blows.push(blow(Some(1), 14_000, 21_000));
        })
    };
    assert_eq!(late(21_500), "");
    assert_ne!(late(41_000), "", "it was awake for long");
}

#[test]
fn a_put_that_the_endpoint_held_up_at_a_blow_ends_as_long_after_it() {
    let late = |outages: &[Stretch]| {
        faults(|evidence| {
            again(evidence, "id-1", [delivery(0, 20_000), delivery(1, 29_000)]);
            evidence.blows.push(blow(Some(1), 19_000, 19_500));
            evidence.outages = outages.to_vec();
        })
    };
    let stretch = |from, until| Stretch {
        from: ms(from),
        until: ms(until),
    };
    assert_ne!(late(&[]), "");
    assert_eq!(late(&[stretch(18_000, 25_000)]), "");
    assert_ne!(late(&[stretch(15_000, 20_000)]), "", "over for long");
}

const TWICE: [Delivery; 2] = [delivery(0, 20_000), delivery(1, 21_000)];

/// Three records come twice, with these blows.
fn thrice(blows: &[Blow]) -> String {
    faults(|evidence| {
        evidence.blows = blows.to_vec();
        for id in ["id-0", "id-1", "id-2"] {
            again(evidence, id, TWICE);
        }
    })
}

#[test]
fn more_duplicates_than_were_in_flight_at_a_blow_are_a_fault() {
    let told = thrice(&[blow(Some(0), 20_100, 20_100)]);
    let begin = "1 delivered again beyond what was in flight at the blows: id-2";
    assert!(told.starts_with(begin), "{told}");
    let elsewhere = [
        blow(Some(0), 20_100, 20_100),
        blow(Some(0), 35_000, 35_000),
        blow(Some(2), 20_100, 20_100),
    ];
    assert_eq!(thrice(&elsewhere), told, "blows that explain none of them");
    let both = [blow(Some(0), 20_100, 20_100), blow(Some(0), 20_200, 20_200)];
    assert_eq!(thrice(&both), "");
    assert_eq!(thrice(&[blow(None, 19_000, 25_000)]), "", "all workers");
}

#[test]
fn what_a_worker_told_to_be_in_flight_bounds_its_duplicates() {
    let idle = Blow {
        in_flight: 0,
        ..blow(Some(0), 20_100, 20_100)
    };
    let told = thrice(&[idle]);
    assert!(told.starts_with("2 delivered again beyond"), "{told}");
}

/// The first two may be blamed on either blow, the last one on the first only.
#[test]
fn duplicates_make_room_for_each_other_where_another_blow_explains_them() {
    let told = faults(|evidence| {
        evidence.blows = vec![blow(Some(0), 20_100, 20_100), blow(Some(0), 22_000, 22_000)];
        for id in ["id-0", "id-1"] {
            again(evidence, id, [delivery(0, 20_000), delivery(1, 22_500)]);
        }
        again(evidence, "id-2", TWICE);
    });
    assert_eq!(told, "");
}

#[test]
fn what_was_in_flight_at_a_blow_has_come_again_within_a_lock_unless_it_is_held_up() {
    let at = |at, outages: &[Stretch]| {
        faults(|evidence| {
            again(evidence, "id-1", [delivery(0, 20_000), delivery(1, at)]);
            evidence.blows.push(blow(Some(0), 20_100, 20_100));
            evidence.outages = outages.to_vec();
        })
    };
    assert_eq!(at(29_000, &[]), "");
    let told = at(29_200, &[]);
    assert!(told.contains("without a cause: id-1"), "{told}");
    let outage = |from| Stretch {
        from: ms(from),
        until: ms(from + 3000),
    };
    assert_eq!(at(40_000, &[outage(29_000)]), "");
    assert_ne!(at(41_200, &[outage(29_000)]), "", "long after the outage");
    assert_ne!(at(40_000, &[outage(29_200)]), "", "an outage too late");
}

/// Even if a blow is claimed to explain it.
#[test]
fn nothing_comes_twice_in_the_calm() {
    let twice = |first, second| {
        faults(|evidence| {
            evidence.blows.push(blow(None, first, second));
            again(evidence, "id-8", [delivery(0, first), delivery(1, second)]);
        })
    };
    let told = twice(60_900, 67_000);
    assert!(
        told.starts_with("1 delivered again in the calm: id-8"),
        "{told}"
    );
    assert_ne!(twice(49_000, 50_020), "", "late from before");
    assert_eq!(twice(61_100, 67_000), "", "struck after it");
    assert_eq!(twice(49_000, 49_900), "", "before it");
    let told = faults(|evidence| {
        lettered(evidence, &[52_000, 53_000]);
        evidence.blows.push(blow(None, 52_000, 53_000));
    });
    assert!(
        told.starts_with("1 delivered again in the calm: id-9"),
        "{told}"
    );
}

#[test]
fn a_calm_must_be_there_for_long_enough_and_under_load() {
    assert_eq!(faults(|it| it.calm = None), "there was no calm");
    let short = Stretch {
        from: ms(51_000),
        ..CALM
    };
    let told = faults(|it| it.calm = Some(short));
    assert_eq!(told, "the calm lasted for 15s only");
    let idle = Stretch {
        from: ms(100_000),
        until: ms(120_000),
    };
    let told = faults(|it| it.calm = Some(idle));
    assert!(told.starts_with("0 deliveries only in the calm"), "{told}");
}

#[test]
fn what_a_worker_takes_beyond_its_credit_is_a_fault() {
    let told = faults(|evidence| evidence.footprints[0].credit[0].in_flight = 3);
    assert!(told.contains("2 records in flight beyond"), "{told}");
}

#[test]
fn memory_that_grows_or_was_not_seen_for_long_is_a_fault() {
    let told = faults(|evidence| evidence.footprints[0].memory[2].1 = 70 * MIB);
    assert!(told.contains("70 in its second"), "{told}");
    let told = faults(|evidence| evidence.footprints[0].memory[2].0 = ms(59_000));
    assert!(told.contains("for long enough"), "{told}");
}

/// The same ten records, the refused one with letters at these times.
fn lettered(evidence: &mut Evidence, at: &[u64]) {
    evidence.put_aside = PutAside::Letters;
    evidence.broker.archived.clear();
    let letters = at.iter().map(|at| delivery(1, *at)).collect();
    evidence.letters.insert("id-9".to_owned(), letters);
}

#[test]
fn a_refused_record_must_have_a_letter_where_letters_are_wanted() {
    assert_eq!(faults(|evidence| lettered(evidence, &[30_000])), "");
    let told = faults(|evidence| {
        lettered(evidence, &[30_000]);
        evidence.letters.clear();
    });
    assert_eq!(
        told,
        "1 planned to be put aside, and not: id-9 (reject) at 0@9"
    );
    let told = faults(|evidence| {
        lettered(evidence, &[30_000]);
        evidence.broker.archived.insert((0, 9));
    });
    assert_eq!(told, "1 archived by the broker: id-9 (reject) at 0@9");
}

#[test]
fn only_refused_records_have_letters_and_only_where_they_are_wanted() {
    let told = faults(|evidence| {
        lettered(evidence, &[30_000]);
        let letter = vec![delivery(0, 30_000)];
        evidence.letters.insert("id-3".to_owned(), letter.clone());
        evidence.letters.insert("ghost".to_owned(), letter);
    });
    assert!(
        told.contains("against the plan: id-3 (plain) at 0@3"),
        "{told}"
    );
    assert!(told.contains("letter, but never produced: ghost"), "{told}");
    let told = faults(|evidence| {
        let letter = vec![delivery(0, 30_000)];
        evidence.letters.insert("id-9".to_owned(), letter);
    });
    assert_eq!(
        told,
        "1 with a letter against the plan: id-9 (reject) at 0@9"
    );
}

#[test]
fn a_letter_that_was_written_again_is_explained_as_a_delivery_is() {
    let twice = |struck| {
        faults(|evidence| {
            lettered(evidence, &[20_000, 21_000]);
            evidence.blows.push(blow(Some(struck), 20_100, 20_100));
        })
    };
    assert_eq!(twice(1), "");
    let told = twice(0);
    assert!(
        told.contains("1 with one more letter without a cause: id-9"),
        "{told}"
    );
}

#[test]
fn a_sink_that_refuses_nothing_may_take_what_others_refuse() {
    let taken_by = |worker| {
        faults(|evidence| {
            evidence.broker.archived.clear();
            let taken = vec![delivery(worker, 30_000)];
            evidence.deliveries.insert("id-9".to_owned(), taken);
        })
    };
    assert_eq!(taken_by(2), "");
    assert!(taken_by(1).contains("though the sink refused"));
}

/// A record that worker 1 parked at that time, and that was delivered at these.
fn parked(at: u64, deliveries: &[Delivery], blows: &[Blow]) -> String {
    faults(|evidence| {
        let parkings = vec![delivery(1, at)];
        evidence.parkings.insert("id-1".to_owned(), parkings);
        let deliveries = deliveries.to_vec();
        evidence.deliveries.insert("id-1".to_owned(), deliveries);
        evidence.blows = blows.to_vec();
    })
}

#[test]
fn a_parked_record_is_delivered_once_from_where_it_lies() {
    let (copy, again) = (delivery(1, 25_000), delivery(1, 26_000));
    assert_eq!(parked(20_000, &[copy], &[]), "");
    let told = parked(20_000, &[copy, again], &[]);
    assert!(told.contains("without a cause: id-1"), "{told}");
    let struck = [blow(Some(1), 25_100, 25_100)];
    assert_eq!(parked(20_000, &[copy, again], &struck), "");
    assert_eq!(parked(51_000, &[delivery(1, 55_000)], &[]), "", "calm");
}

#[test]
fn who_was_struck_when_it_parked_a_record_explains_that_another_delivers_it() {
    let deliveries = [delivery(0, 21_000), delivery(1, 25_000)];
    assert_eq!(
        parked(20_000, &deliveries, &[blow(Some(1), 20_100, 20_100)]),
        ""
    );
    for blows in [&[][..], &[blow(Some(0), 10_000, 10_000)]] {
        let told = parked(20_000, &deliveries, blows);
        assert!(told.contains("without a cause: id-1"), "{told}");
    }
}

#[test]
fn a_parked_record_that_is_lost_or_archived_is_a_fault() {
    let told = faults(|evidence| {
        let parkings = vec![delivery(1, 20_000)];
        evidence.parkings.insert("id-1".to_owned(), parkings);
        evidence.deliveries.remove("id-1");
    });
    assert!(told.contains("1 lost: id-1"), "{told}");
    let told = faults(|evidence| {
        evidence.broker_on_parked[0].archived.insert((0, 3));
    });
    assert_eq!(told, "1 parked records archived by the broker: 0@3");
    let told = faults(|evidence| evidence.broker_on_parked[0].highest_delivery_count = 10);
    assert!(told.contains("a parked record was delivered"), "{told}");
}
