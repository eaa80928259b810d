"""Every promise of docs/ci.md has a test: each part of the page is listed here with the tests that hold it."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "ci.md").read_text(encoding="utf-8")
FILES, INIT, INSPECTS, TRUST = "ci/test_ci_files", "cli/test_init", "cli/test_init_inspects", "cli/test_trust"
COMMENTS, COMMAND, GITHUB, GITLAB = (f"net/hosts/test_{name}" for name in ("comments", "command", "github", "gitlab"))
PLUGIN = "test_pytest_plugin"

# A text of each part (paragraph, point, row of a table) → tests. "" is for parts that promise nothing.
HOOKS = "sinks/test_webhooks"
PROMISES: dict[str, str] = {
    "`--send teams` takes its address from": (
        f"{HOOKS}::test_addresses_come_from_the_environment {HOOKS}::test_gate_can_post_failures_only "
        f"{HOOKS}::test_gate_posts_its_verdict_and_keeps_its_exit_code {HOOKS}::test_the_ci_job_is_linked "
        f"{HOOKS}::test_the_verdict_is_posted sinks/test_mlflow::test_gate_adds_its_verdict"
    ),
    "Secrets do not reach pull requests from forks. In CI": (
        f"{HOOKS}::test_a_pull_request_from_a_fork_is_judged_without_the_secret"
    ),
    "What happens on every pull request": f"{FILES}::test_the_workflow_from_main_to_a_pull_request",
    "read the lines marked *blocks*": "report/test_gate_renderers::test_comment_of_the_demo_set",
    "A cross (❌) means *fail*": "report/test_gate_renderers::test_comment_of_the_demo_set",
    "A question mark (❔) means *inconclusive*": "report/test_gate_renderers::test_comment_of_the_demo_set",
    "could not be judged (exit code 2)": f"{FILES}::test_what_the_action_cannot_judge",
    "Run `karat init` at the top of the repository": (
        f"{INSPECTS}::test_the_gates_run_on_what_is_there "
        f"{INIT}::test_an_editor_finds_the_schema_and_the_criteria_fit_it {INIT}::test_what_it_writes_works_together"
    ),
    "It looks for `gold.*` and `qrels.*`": f"{INSPECTS}::test_another_gold_set_by_name",
    "Existing files are kept": f"{INIT}::test_what_exists_is_kept {INIT}::test_dry_run_writes_nothing",
    "If there is a run (`run.jsonl`, or `--run`), floors are set": (
        f"{INSPECTS}::test_floors_follow_a_run_that_is_there {INSPECTS}::test_floors_do_not_follow_a_run_in_doubt"
    ),
    "Fill in what only you know": f"{INIT}::test_what_it_writes_works_together",
    "| `KARAT` | what pip installs": f"{INSPECTS}::test_what_is_pinned_is_taken",
    "| `RETRIEVER` | what `karat run` calls": f"{FILES}::test_the_workflow_asks_the_users_function",
    "| `branches` | the branch": f"{INSPECTS}::test_the_default_branch_is_that_of_the_repository",
    "| `paths` | files whose changes": f"{INSPECTS}::test_paths_name_what_moves_the_result",
    "If your Karat was installed from a repository": (
        f"{INSPECTS}::test_the_same_karat_is_installed_again "
        f"{FILES}::test_no_file_installs_a_name_from_a_package_index "
        f"{FILES}::test_nothing_is_installed_until_it_is_said_what"
    ),
    "Push to the default branch": f"{FILES}::test_the_workflow_from_main_to_a_pull_request",
    "To block merges": "",
    "If your workflow already asks the retriever": "",
    "The action installs Karat in its own environment": (
        f"{FILES}::test_the_action_leaves_the_jobs_python_alone "
        f"{FILES}::test_the_action_judges_and_keeps_the_exit_code_for_the_end"
    ),
    "| `run` | what the retriever returned": f"{FILES}::test_the_action_finds_the_criteria_and_takes_saved_results",
    "| `gold` | gold set": f"{FILES}::test_the_action_finds_the_criteria_and_takes_saved_results",
    "| `criteria` | gates": f"{FILES}::test_the_action_finds_the_criteria_and_takes_saved_results",
    "| `gates` | gates as text": f"{FILES}::test_the_action_judges_and_keeps_the_exit_code_for_the_end",
    "| `baseline` | a run or saved result": f"{FILES}::test_the_action_without_a_baseline_yet",
    "| `save` | write the result": f"{FILES}::test_the_action_judges_and_keeps_the_exit_code_for_the_end",
    "| `comment` | `false`": f"{FILES}::test_who_wants_no_comment_gets_none",
    "| `comment-name` | which comment": f"{FILES}::test_the_action_comments_also_when_there_is_nothing_to_say",
    "| `token` | writes the comment": f"{FILES}::test_who_wants_no_comment_gets_none",
    "| `package` | what pip installs": f"{FILES}::test_the_action_leaves_the_jobs_python_alone",
    "| `python-version` | Python": f"{FILES}::test_the_action_leaves_the_jobs_python_alone",
    "| `exit-code` | 0, 1 or 2": f"{FILES}::test_what_the_action_cannot_judge",
    "| `folder` | where": f"{FILES}::test_the_action_judges_and_keeps_the_exit_code_for_the_end",
    "`karat init --gitlab` writes": (
        f"{FILES}::test_the_gitlab_file_to_include_is_the_one_that_init_writes "
        f"{INSPECTS}::test_a_workflow_says_where_it_trusts_karat_yaml"
    ),
    "[ci/gitlab/karat.gitlab-ci.yml]": f"{FILES}::test_the_gitlab_file_to_include_is_the_one_that_init_writes",
    "Fill in `KARAT_PACKAGE`": f"{FILES}::test_the_gitlab_jobs",
    "Save a project access token": (
        f"{FILES}::test_the_gitlab_jobs {GITLAB}::test_a_job_token_cannot_comment_and_nothing_is_sent"
    ),
    "The verdict is in the comment, in the merge": f"{FILES}::test_the_gitlab_jobs",
    "Any result saved with": f"{FILES}::test_the_action_finds_the_criteria_and_takes_saved_results",
    "| an **artifact** of main": f"{FILES}::test_a_baseline_is_kept_for_90_days",
    "| a **file in the repository**": f"{FILES}::test_a_baseline_of_the_repository_is_taken_where_it_stands",
    "For the file, delete the steps": f"{FILES}::test_a_baseline_of_the_repository_is_taken_where_it_stands",
    "`--criteria` makes `karat eval` measure": f"{FILES}::test_the_workflow_from_main_to_a_pull_request",
    "take baselines from pushes": (
        f"{FILES}::test_the_workflow_from_main_to_a_pull_request {FILES}::test_the_first_pull_request_has_no_baseline "
        f"{FILES}::test_a_merge_request_brings_no_baseline_of_its_own {FILES}::test_a_baseline_is_kept_for_90_days"
    ),
    "**No baseline yet.**": (
        f"{FILES}::test_the_first_pull_request_has_no_baseline {FILES}::test_the_action_without_a_baseline_yet"
    ),
    "**A failed download.**": (
        f"{FILES}::test_a_baseline_that_cannot_be_fetched_is_no_green_light "
        f"{FILES}::test_a_merge_request_brings_no_baseline_of_its_own"
    ),
    "The token that fetches it": (
        f"{FILES}::test_a_token_of_gitlab_goes_nowhere_else {FILES}::test_no_step_leaves_a_token_in_the_checkout"
    ),
    "The gold set changed": "gates/test_verdicts::test_what_does_not_measure_the_same_is_no_baseline",
    "A baseline that moves with main": "gates/test_verdicts::test_a_slow_slide_is_caught_by_the_anchor",
    "A pull request can change `karat.yaml`": "",
    "| field | allowed | because |": "",
    "| `store` | a folder below": (
        f"{TRUST}::test_a_pull_request_does_not_get_the_password {TRUST}::test_a_folder_elsewhere_needs_the_flag "
        f"{TRUST}::test_a_folder_below_needs_none"
    ),
    "| `retrievers` | Karat's own": (
        f"{TRUST}::test_a_pull_request_names_no_code_and_no_server "
        f"{TRUST}::test_retrievers_of_karats_own_need_no_trust "
        "cli/test_run_command::test_retrievers_of_another_users_file_are_not_run"
    ),
    "| [`places`](sending.md#names-for-places) | none |": f"{TRUST}::test_a_pull_request_names_no_code_and_no_server",
    "Anything else ends with exit code 2.": f"{TRUST}::test_a_file_of_somebody_else_is_not_trusted",
    "`KARAT_STORE`, set in the CI's own settings": f"{TRUST}::test_what_the_user_says_needs_none",
    "`karat --trust-config gate …`": (
        f"{TRUST}::test_the_flag_stands_before_or_after_the_command "
        f"{INSPECTS}::test_a_workflow_says_where_it_trusts_karat_yaml"
    ),
    "The action runs Python with `-I`": f"{FILES}::test_the_action_installs_karat_with_all_that_belongs_to_it",
    "A pull request from a fork runs": f"{FILES}::test_pull_requests_of_forks_get_no_comment",
    "Karat provides a pytest fixture": (
        f"{PLUGIN}::test_what_may_ship_passes {PLUGIN}::test_the_name_stands_in_the_project_file"
    ),
    "`run` and `gold` are files, dicts": f"{PLUGIN}::test_what_may_ship_passes",
    "A gate that blocks fails the test": (
        f"{PLUGIN}::test_a_failure_is_the_verdict_and_nothing_else {PLUGIN}::test_what_cannot_be_judged_says_why "
        f"{PLUGIN}::test_criteria_of_the_project_are_found_and_a_warning_is_one"
    ),
    "It works with `pytest-xdist`": f"{PLUGIN}::test_several_workers_tell_the_same",
    "`-p no:karat` turns it off": f"{PLUGIN}::test_it_can_be_left_out",
    "`karat gate comment FILE` writes": (
        f"{COMMAND}::test_create_then_update {COMMENTS}::test_created_once_then_updated"
    ),
    "| recognised by |": f"{COMMAND}::test_create_then_update",
    "| token | `GITHUB_TOKEN`": (
        f"{GITHUB}::test_tokens_of_people_and_apps_find_their_own_comments "
        f"{GITLAB}::test_a_job_token_cannot_comment_and_nothing_is_sent"
    ),
    "| which project |": f"{GITLAB}::test_the_project_of_the_merge_request_wins_over_the_forks",
    "| which pull request |": (
        f"{GITHUB}::test_the_event_tells_the_pull_request {GITHUB}::test_the_ref_of_a_pull_request_needs_no_event "
        f"{GITLAB}::test_a_merge_request_has_a_number"
    ),
    "| server | `GITHUB_API_URL`": f"{GITHUB}::test_where_to_ask_who_one_is",
    "| longest comment |": (
        f"{GITHUB}::test_a_huge_body_is_cut_at_a_line {GITLAB}::test_a_body_may_be_a_million_characters"
    ),
    "| the token may not comment |": (
        f"{GITHUB}::test_a_fork_gets_the_summary {GITLAB}::test_a_token_that_may_not_write_gets_the_log"
    ),
    "`--service github|gitlab` and `--pull-request N` override": f"{COMMAND}::test_host_and_number_can_be_given",
    "**Which comment.**": (
        f"{COMMENTS}::test_each_name_has_a_comment_of_its_own "
        f"{COMMENTS}::test_a_marker_in_somebody_elses_comment_is_not_trusted "
        f"{COMMENTS}::test_a_comment_that_may_not_be_edited_is_left_and_a_new_one_written"
    ),
    "**Forks.** The token": (
        f"{COMMAND}::test_a_fork {COMMAND}::test_a_job_token_prints_the_text {COMMAND}::test_a_wrong_token_is_not_shown"
    ),
    "**Errors.**": "",
    "Busy and broken servers": (
        f"{COMMENTS}::test_a_server_that_stumbles_is_asked_again {COMMENTS}::test_retry_after_is_honoured "
        f"{COMMAND}::test_a_hanging_server_ends_with_one_message"
    ),
    "Each attempt looks for the comment first": (
        f"{COMMENTS}::test_a_post_that_was_accepted_and_not_answered_is_not_repeated"
    ),
    "Exit code 2 means that the text was written nowhere.": f"{COMMAND}::test_a_hanging_server_ends_with_one_message",
    "**What is sent.**": (
        f"{COMMENTS}::test_no_redirect_carries_the_token_to_another_server "
        f"{COMMENTS}::test_the_token_is_taken_out_of_the_text "
        f"{COMMAND}::test_a_proxy_of_the_environment_is_used "
        f"{COMMAND}::test_a_dry_run_sends_nothing_and_needs_no_token "
        "net/test_http::test_certificates_are_those_of_the_environment"
    ),
}


def parts() -> list[str]:
    """Paragraphs, points and rows of the page, without code and headings."""
    text = re.sub(r"^ *```.*?^ *```$", "", PAGE, flags=re.M | re.S)
    text = re.sub(r"^(#.*|<!--.*-->|\s*\|[-|]+\|)$", "", text, flags=re.M)
    found = re.split(r"\n\s*\n|\n(?=\s*(?:- |\d+\. |\|))", text)
    return [part.strip() for part in found if part.strip()]


HEADINGS = ("| in the workflow |", "| input |", "| output |", "| where it is |", "| | GitHub | GitLab |")


def test_every_part_of_the_page_is_listed() -> None:
    unknown = [part for part in parts() if not part.startswith(HEADINGS) and not any(text in part for text in PROMISES)]
    assert unknown == [], "list it in PROMISES, with tests that hold what it says"


@pytest.mark.parametrize("text", PROMISES)
def test_what_holds_a_promise_is_there(text: str) -> None:
    assert text in PAGE, "the page no longer says this"
    for test in PROMISES[text].split():
        file, _, name = test.partition("::")
        assert f"\ndef {name}(" in source_of(file), test


@cache
def source_of(file: str) -> str:
    return (ROOT / "tests" / f"{file}.py").read_text(encoding="utf-8")
