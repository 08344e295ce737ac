//! From records to requests.

use bytes::Bytes;
use reqwest::header::{CONTENT_TYPE, HeaderValue};
use reqwest::{Method, Request};
use sluice_actors::record::SinkRecord;

use crate::sinks::http::body::JSON;
use crate::sinks::http::config::{RequestSettings, Tombstones};
use crate::sinks::http::trace_context;

/// The records of one request, by their places in the chunk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Parcel {
    pub(super) places: Vec<usize>,
    /// A DELETE of a single record.
    pub(super) is_delete: bool,
}

/// Why no request can be made with a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Unfit {
    pub(super) place: usize,
    pub(super) cause: String,
}

impl Unfit {
    fn new(place: usize, record: &SinkRecord, cause: impl std::fmt::Display) -> Self {
        let cause = format!("{} makes no request: {cause}", record.id());
        Self { place, cause }
    }
}

/// How a chunk is sent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Plan {
    pub(super) parcels: Vec<Parcel>,
    /// Nothing is to be done for these.
    pub(super) ignored: Vec<usize>,
    pub(super) unfit: Vec<Unfit>,
}

impl RequestSettings {
    /// Which records go together.
    pub(super) fn plan(&self, records: &[SinkRecord]) -> Plan {
        let mut plan = Plan::default();
        // Batches that still have room; the address may depend on the topic.
        let mut open: Vec<(&str, usize)> = Vec::new();
        for (place, record) in records.iter().enumerate() {
            if record.value.value.is_null() {
                self.plan_tombstone(place, record, &mut plan);
                continue;
            }
            let Some(batching) = &self.batching else {
                plan.parcels.push(Parcel::single(place, false));
                continue;
            };
            let batch = open.iter().find(|(topic, _)| **topic == *record.topic);
            if let Some((_, number)) = batch
                && plan.parcels[*number].places.len() < batching.max_records
            {
                plan.parcels[*number].places.push(place);
                continue;
            }
            open.retain(|(topic, _)| **topic != *record.topic);
            open.push((&record.topic, plan.parcels.len()));
            plan.parcels.push(Parcel::single(place, false));
        }
        plan
    }

    fn plan_tombstone(&self, place: usize, record: &SinkRecord, plan: &mut Plan) {
        match self.tombstones {
            Tombstones::Ignore => plan.ignored.push(place),
            Tombstones::Delete => plan.parcels.push(Parcel::single(place, true)),
            Tombstones::Fail => plan.unfit.push(Unfit::new(
                place,
                record,
                "it has no value, see behavior.on.null.values",
            )),
        }
    }

    /// The request of a parcel, without authorization. Records that are not
    /// fit for it are taken out; `None` when there is no other.
    pub(super) fn make(
        &self,
        parcel: &mut Parcel,
        records: &[SinkRecord],
        unfit: &mut Vec<Unfit>,
    ) -> Option<Request> {
        let body = match parcel.is_delete {
            true => None,
            false => Some(self.body(parcel, records, unfit)?),
        };
        match self.assemble(parcel, records, body) {
            Ok(request) => Some(request),
            Err(cause) => {
                // What is wrong with the address is wrong with all of a batch.
                let places = std::mem::take(&mut parcel.places).into_iter();
                unfit.extend(places.map(|place| Unfit::new(place, &records[place], &cause)));
                None
            }
        }
    }

    fn assemble(
        &self,
        parcel: &Parcel,
        records: &[SinkRecord],
        body: Option<(Bytes, HeaderValue)>,
    ) -> Result<Request, String> {
        let mut request = self.shell(parcel, records)?;
        let headers = request.headers_mut();
        if let Some((body, kind)) = body {
            headers.insert(CONTENT_TYPE, kind);
            *request.body_mut() = Some(body.into());
        }
        if let [place] = parcel.places[..] {
            self.forward.add(&records[place], request.headers_mut())?;
        }
        let sent = parcel.places.iter().map(|place| &records[*place]);
        trace_context::add(sent, request.headers_mut());
        Ok(request)
    }

    /// Address, method and the headers that do not depend on the body. The
    /// records of a batch have the same address.
    fn shell(&self, parcel: &Parcel, records: &[SinkRecord]) -> Result<Request, String> {
        let mut sent = parcel.places.iter().map(|place| &records[*place]);
        let first = sent.clone().next().ok_or("there is no record")?;
        let method = match parcel.is_delete {
            true => Method::DELETE,
            false => self.method.clone(),
        };
        let mut request = Request::new(method, self.template.fill(first)?);
        *request.headers_mut() = self.headers.clone();
        if let Some(key) = &self.idempotency_key {
            let value = HeaderValue::from_str(&key.of(&mut sent))
                .map_err(|_| "its topic's name cannot be part of a header".to_owned())?;
            request.headers_mut().insert(key.header.clone(), value);
        }
        Ok(request)
    }

    fn body(
        &self,
        parcel: &mut Parcel,
        records: &[SinkRecord],
        unfit: &mut Vec<Unfit>,
    ) -> Option<(Bytes, HeaderValue)> {
        let mut bodies = Vec::with_capacity(parcel.places.len());
        let mut kind = JSON;
        parcel.places.retain(|place| {
            let record = &records[*place];
            match self.format.body(&record.value) {
                Ok((body, its_kind)) => {
                    kind = its_kind;
                    bodies.push(body);
                    true
                }
                Err(error) => {
                    unfit.push(Unfit::new(*place, record, error));
                    false
                }
            }
        });
        let content_type = |kind| {
            let set = self.content_type.clone();
            set.unwrap_or(HeaderValue::from_static(kind))
        };
        match &self.batching {
            _ if bodies.is_empty() => None,
            Some(batching) => Some((batching.join(&bodies), content_type(JSON))),
            None => Some((bodies.pop()?, content_type(kind))),
        }
    }
}

impl Parcel {
    fn single(place: usize, is_delete: bool) -> Self {
        Self {
            places: vec![place],
            is_delete,
        }
    }
}
