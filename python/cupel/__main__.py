"""`python -m cupel` is the `cupel` program. SPDX-License-Identifier: Apache-2.0"""

from cupel._program import main

if __name__ == "__main__":
    main()
