# SPDX-License-Identifier: Apache-2.0
"""What we know, as frozen data: no framework, no IO. Everything else in firstfault speaks in these."""
