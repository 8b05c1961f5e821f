# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from firstfault.errors import UsageError
from firstfault.query.select import COLLECTIONS, Collection, named, select
from firstfault.records.series import KINDS, Series

EVERY_KIND = [Series(kind, "encoder.weight") for kind in KINDS]
BIASES = [
    Series("weight", subject) for subject in ("bias", "encoder.bias", "attention.in_proj_bias", "rnn.bias_ih_l0")
]


def test_the_built_in_collections_are_these() -> None:
    assert list(COLLECTIONS) == (
        [
            "weights",
            "biases",
            "gradients",
            "activations",
            "inputs",
            "outputs",
            "losses",
            "metrics",
            "learning_rates",
            "updates",
            "all",
        ]
    )


@pytest.mark.parametrize(
    ("collection", "kind"),
    [("gradients", "gradient"), ("losses", "loss"), ("learning_rates", "learning_rate"), ("weights", "weight")],
)
def test_a_collection_takes_its_kind(collection: str, kind: str) -> None:
    assert [entry.kind for entry in select(EVERY_KIND, collection=collection)] == [kind]


def test_biases_are_told_from_weights() -> None:
    assert select([*BIASES, *EVERY_KIND], collection="biases") == BIASES
    assert select(BIASES, collection="weights") == []


def test_all_takes_everything() -> None:
    assert select(EVERY_KIND, collection="all") == EVERY_KIND


def test_a_collection_of_the_callers_own_serves_as_well() -> None:
    own = Collection(name="attention", kinds=("weight",), pattern="attention")
    assert select(BIASES, collection=own) == [Series("weight", "attention.in_proj_bias")]


def test_all_that_is_asked_must_hold() -> None:
    assert select(BIASES, kind="weight", collection="biases", regex="^weight/encoder") == [BIASES[1]]


def test_what_does_not_exist_is_answered_with_what_does() -> None:
    with pytest.raises(UsageError, match="there is no collection 'bias': there are weights, biases"):
        select(EVERY_KIND, collection="bias")
    with pytest.raises(UsageError, match="there is no kind 'weights': a series is one of weight, gradient"):
        select(EVERY_KIND, kind="weights")
    with pytest.raises(UsageError, match=r"'\(' is no regular expression"):
        select(EVERY_KIND, regex="(")


def test_a_series_is_named_in_full_or_by_its_subject_where_that_is_enough() -> None:
    assert named("weight/bias", BIASES) == BIASES[0]
    assert named("encoder.bias", BIASES) == BIASES[1]
    assert named(BIASES[2], BIASES) is BIASES[2]
    with pytest.raises(UsageError, match="could be"):
        named("encoder.weight", EVERY_KIND)
    with pytest.raises(UsageError, match="no series 'loss/bias'"):
        named(Series("loss", "bias"), BIASES)
