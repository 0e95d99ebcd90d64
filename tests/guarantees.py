"""The promises, each with a stable id, its words, and the tests that would fail if it were broken.

tests/contract/test_guarantees.py checks both ways: every test named here exists, every promise has tests, and README.md says exactly
these words.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class Guarantee(NamedTuple):
    id: str
    says: str
    tests: tuple[str, ...]


GUARANTEES: Final = (
    Guarantee(
        "send-once",
        "Any number of retries with one `message_id` store one message; the same id with other words is refused.",
        (
            "test_a_retry_stores_nothing_and_says_so",
            "test_the_same_id_with_other_words_is_refused",
            "test_a_cut_send_stores_one_message",
            "test_every_message_of_many_retrying_senders_reaches_one_of_many_readers_once_and_in_order",
        ),
    ),
    Guarantee(
        "one-reader",
        "A message is in flight to at most one session; readers on several machines get different messages.",
        (
            "test_readers_of_one_inbox_get_different_messages",
            "test_each_message_goes_to_one_of_many_that_wait",
            "test_the_promises_hold_whatever_happens",
        ),
    ),
    Guarantee(
        "pull-retry",
        "A retry with the same `pull_id` returns the same batch, even if others pulled in between.",
        (
            "test_a_retried_pull_returns_the_same_batch_though_others_pulled_in_between",
            "test_a_cut_pull_hands_the_same_batch_to_the_same_reader_once",
            "test_a_cut_pull_that_acks_at_once_delivers_the_same_batch_once",
        ),
    ),
    Guarantee(
        "ack-final",
        "After an ack no pull returns the message again, unless the transcript proves that the model never got it.",
        (
            "test_an_ack_delivers_for_good",
            "test_nothing_is_lost_or_handed_over_after_its_ack_when_this_is_killed_again_and_again",
        ),
    ),
    Guarantee(
        "former-holder",
        "Whoever lost a message to another session can neither ack nor release it.",
        ("test_an_ack_of_a_message_that_another_took_is_refused", "test_a_release_by_a_former_holder_changes_nothing"),
    ),
    Guarantee(
        "dead-reader",
        "A reader that dies between pull and ack loses nothing: its messages come again once, and nobody else's are disturbed.",
        (
            "test_a_hold_that_ran_out_comes_again_without_a_sweep",
            "test_what_a_killed_reader_held_comes_once_more_to_another_and_nobody_elses_mail_moves",
        ),
    ),
    Guarantee(
        "order",
        "Urgent before high before normal before low; first in, first out within one; what came back keeps its place.",
        ("test_a_returned_message_keeps_its_place", "test_the_promises_hold_whatever_happens"),
    ),
    Guarantee(
        "crash",
        "Whatever is killed at whatever moment, what a sender was told is stored is delivered.",
        (
            "test_nothing_is_lost_or_handed_over_after_its_ack_when_this_is_killed_again_and_again",
            "test_a_store_that_stands_still_under_load_loses_and_doubles_nothing",
            "test_a_killed_broker_starts_again_with_all_it_had_answered_for",
        ),
    ),
    Guarantee(
        "looking",
        "Looking never consumes: timeline, pending and show change nothing.",
        ("test_looking_never_consumes", "test_counting_never_consumes"),
    ),
    Guarantee(
        "identity",
        "The broker sets the sender from the token; nobody can name another, and nothing but health answers without one.",
        (
            "test_nobody_speaks_in_a_name_their_token_does_not_allow",
            "test_no_route_answers_without_a_token",
            "test_a_role_may_do_what_the_table_says_and_no_more",
        ),
    ),
    Guarantee(
        "loops",
        "Two agents that answer each other for ever are cut off with a clear word.",
        ("test_a_loop_of_agents_is_cut",),
    ),
    Guarantee(
        "shown-once",
        "A hook that is killed at any moment, or whose output the program threw away, loses nothing and shows nothing twice.",
        (
            "test_mail_through_hooks_that_are_killed_at_any_moment_is_shown_once",
            "test_a_hook_that_is_killed_here_and_whose_words_were_thrown_away_loses_nothing",
            "test_a_hook_that_is_killed_behind_its_words_shows_nothing_twice",
            "test_mail_that_was_shown_while_a_hook_slept_is_not_shown_again_by_it",
        ),
    ),
    Guarantee(
        "one-way",
        "What one way has delivered (the hook, `check_inbox`, `wait-reply`) no other delivers again.",
        (
            "test_hooks_and_tools_of_one_session_are_one_reader",
            "test_after_a_lost_answer_the_same_call_gets_the_same_batch",
            "test_what_wait_reply_printed_no_hook_shows_again",
            "test_an_answer_that_a_hook_has_shown_is_not_waited_for",
        ),
    ),
    Guarantee(
        "frame",
        "No body closes or fakes the frame it is shown in, and no answer is longer than the program takes.",
        (
            "test_no_words_leave_their_quote_or_break_the_limit",
            "test_no_trick_keeps_a_hosts_own_tag",
        ),
    ),
    Guarantee(
        "one-owner",
        "Of any number that claim a thread one owns it until its lease runs out or it ends; the others are told at once.",
        (
            "test_sixty_four_processes_claim_a_thousand_threads_and_each_is_claimed_once",
            "test_of_many_that_claim_at_once_one_gets_it",
            "test_the_rules_hold_whatever_happens",
        ),
    ),
    Guarantee(
        "fencing",
        "Whoever lost a lease writes nothing under it any more, not even what was on its way.",
        (
            "test_a_stopped_holder_that_wakes_after_a_takeover_cannot_write_anything",
            "test_a_write_delayed_until_after_a_takeover_is_refused",
            "test_a_worker_stopped_between_reading_and_writing_writes_nothing",
        ),
    ),
    Guarantee(
        "no-reply-missed",
        "A reply that lands between two calls of `wait-reply` is not missed, and nobody wakes for another's.",
        (
            "test_no_reply_between_two_calls_is_missed",
            "test_replies_while_somebody_waits_again_and_again_all_arrive_once_in_order",
            "test_nobody_wakes_for_anothers_reply",
            "test_one_that_is_killed_before_it_printed_loses_nothing",
        ),
    ),
    Guarantee(
        "events-gapless",
        "A reader of events that comes back with its last id is told everything since, once and in order, or that the log no longer reaches back.",
        (
            "test_no_event_is_missed_or_doubled_under_load_by_readers_that_come_and_go",
            "test_readers_of_a_broker_that_ends_and_starts_again_miss_nothing",
            "test_a_subscription_that_is_cut_again_and_again_costs_no_event",
            "test_a_number_the_log_no_longer_reaches_is_answered_with_a_reset",
        ),
    ),
    Guarantee(
        "attach-undo",
        "`inbox detach` leaves every file byte for byte as it was before `inbox attach`, but for what somebody changed since.",
        (
            "test_attach_and_detach_leave_every_file_as_it_was",
            "test_what_cannot_be_edited_is_refused_and_nothing_changes",
            "test_what_somebody_changed_since_stays_and_only_ours_goes",
        ),
    ),
)
