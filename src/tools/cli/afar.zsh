#compdef afar
# SPDX-License-Identifier: BSD-3-Clause
# Completion of afar's words in zsh. Which words may come next, afar itself says.

local -a candidates
candidates=(${(f)"$($words[1] complete "${(@Q)words[2,CURRENT-1]}" "${(Q)PREFIX}" 2>/dev/null)"})
if [[ $candidates == :file ]]; then
	_files
else
	# Behind a namespace comes its region, behind a directory what is in it.
	compadd -S '' -- ${(M)candidates:#*[:/]}
	compadd -- ${candidates:#*[:/]}
fi
