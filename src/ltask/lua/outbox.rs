//! What waits for room in a full mailbox (`full = "wait"`), and who waits with it.

use crate::ltask::fast::Waiting;
use crate::ltask::mailbox::Refusal;
use crate::ltask::message::ServiceId;
use crate::ltask::service::Service;
use crate::task::Token;

/// Delivers what waited for room at `to`, in order, as far as there is some; whoever waited goes on.
pub(in crate::ltask) fn flush(service: &mut Service, to: ServiceId) {
    let Some(mut queue) = service.fast.outbox.remove(&to) else {
        return;
    };
    while let Some(waiting) = queue.pop_front() {
        let (ticket, session) = (waiting.ticket, waiting.message.session);
        match service.system().post(waiting.message, service.id) {
            Ok(()) => wake(service, ticket, true),
            Err((message, Refusal::Full)) => {
                queue.push_front(Waiting { message, ticket });
                service.fast.outbox.insert(to, queue);
                return;
            }
            Err((_, Refusal::Missing)) => {
                wake(service, ticket, false);
                let system = service.system();
                if session != 0 {
                    system.answer_dead(to, service.id, session);
                }
            }
        }
    }
}

/// Whoever waits in `send` goes on: see `calls::sent`.
fn wake(service: &mut Service, ticket: i64, delivered: bool) {
    if ticket != 0
        && let Some(tasks) = service.fast.tasks()
    {
        tasks.wakeup_with(Token::Session(ticket), delivered);
    }
}
