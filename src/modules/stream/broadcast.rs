//! `stream.broadcast`: sends one message to many connections.

use super::connection::Connection;
use crate::lua::{Call, Fault, Nil, Value, results};
use crate::stream::broadcast::Delivery;

type Places = (i64, Value, Value, Value);

results! {
    pub(super) enum Broadcast {
        /// All connections have sent the message.
        Sent((i64, Nil)),
        Some(Places),
        /// An element of the list is not a connection.
        Misuse((Nil, String)),
    }
}

/// `stream.broadcast(list, data, most)`: sends the message to all connections of the list. Returns the number of
/// connections that have accepted the message. Unless all connections have sent the message immediately, also returns
/// three lists of indexes in `list`: connections that have queued the rest of the message, connections that are closed,
/// and connections whose queues are full. Returns nil and a message if an element of the list is not a connection; then
/// nothing was sent.
pub(super) fn broadcast(call: &mut Call<'_>) -> Result<Broadcast, Fault> {
    let count = call.raw_length(1) as i64;
    let most = call.integer_in(3, 0..=i64::MAX, "limit")? as usize;
    call.bytes(2)?;
    let top = call.count();
    for place in 1..=count {
        let index = call.element(1, place)?;
        if call.as_object::<Connection>(index).is_none() {
            let kind = call.type_name(index);
            let message = format!("connection expected at place {place}, got {kind}");
            return Ok(Broadcast::Misuse((Nil, message)));
        }
        call.drop_to(top);
    }
    let mut places = [const { Vec::new() }; 3];
    let mut copy = None;
    for place in 1..=count {
        let index = call.element(1, place)?;
        let (stream, stack) = call.object_and_stack::<Connection>(index)?;
        let delivery = stream.broadcast(stack.bytes(2)?, &mut copy, most);
        call.drop_to(top);
        match delivery {
            Delivery::Sent => {}
            Delivery::Queued => places[0].push(Value::Integer(place)),
            Delivery::Closed => places[1].push(Value::Integer(place)),
            Delivery::Full => places[2].push(Value::Integer(place)),
        }
    }
    let [queued, closed, full] = places;
    let taken = count - (closed.len() + full.len()) as i64;
    let all = queued.is_empty() && taken == count;
    Ok(match all {
        true => Broadcast::Sent((taken, Nil)),
        false => {
            let [queued, closed, full] = [queued, closed, full].map(Value::List);
            Broadcast::Some((taken, queued, closed, full))
        }
    })
}
