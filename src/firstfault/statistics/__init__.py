# SPDX-License-Identifier: Apache-2.0
"""What a number means: the numpy reference that every framework's fast version is held to. Runs anywhere."""
